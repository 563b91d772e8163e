package id_test

import (
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/internal/id"
)

func TestNewIsPrefixedSortableAndUnique(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var ids []string
	seen := map[string]bool{}
	for i := range 2000 {
		v := id.New(id.Payment, start.Add(time.Duration(i)*time.Millisecond))
		if len(v) != len("pay_")+26 || !strings.HasPrefix(v, "pay_") {
			t.Fatalf("id %q has an unexpected form", v)
		}
		if seen[v] {
			t.Fatalf("id %q was minted twice", v)
		}
		seen[v] = true
		ids = append(ids, v)
	}
	if !sort.StringsAreSorted(ids) {
		t.Fatal("ids of later milliseconds do not sort after earlier ones")
	}
}
