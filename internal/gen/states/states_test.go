package main

import (
	"os"
	"slices"
	"testing"

	"github.com/unavez/unavez/payment"
)

// The committed page is what the package says today.
func TestCommittedPage(t *testing.T) {
	have, err := os.ReadFile("../../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	// Twice, since a page that differs from one time to the next is no page.
	for range 2 {
		if string(have) != render() {
			t.Error("docs/states.md is not what the package says: make generate")
		}
	}
}

// Each example shows its state, in any order, and its facts are well formed.
func TestExamples(t *testing.T) {
	for _, e := range examples {
		facts := slices.Clone(e.facts)
		for range 2 {
			if got := payment.Fold(record(payment.FormTotal), facts).State; got != e.state {
				t.Errorf("%s shows %s", e.state, got)
			}
			slices.Reverse(facts)
		}
	}
	for _, a := range arrivals() {
		if err := a.fact.Validate(); err != nil {
			t.Errorf("%s: %v", a.text, err)
		}
	}
	for _, k := range payment.Kinds() {
		if about[k] == "" {
			t.Errorf("%s is not described", k)
		}
	}
	for _, r := range rows {
		if !slices.ContainsFunc(examples, func(e example) bool { return e.state == r.state }) {
			t.Errorf("no example shows %s", r.state)
		}
	}
}
