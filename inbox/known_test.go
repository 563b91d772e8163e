package inbox

import (
	"fmt"
	"testing"
)

func TestKnownIsBoundedInBytes(t *testing.T) {
	const bytesMax = 64 << 10
	k := newKnown(bytesMax, 7)
	for i := range 10_000 {
		k.put(7, 7, fmt.Sprintf("shop|live|event_with_a_long_name_%d", i), remembered{id: "evt_01"})
	}
	entries, bytes := k.size()
	if bytes > bytesMax || bytes < bytesMax/2 || entries == 0 {
		t.Errorf("%d entries of %d bytes", entries, bytes)
	}
	if _, ok := k.get(7, "shop|live|event_with_a_long_name_9999"); !ok {
		t.Error("the newest is forgotten")
	}
	if _, ok := k.get(7, "shop|live|event_with_a_long_name_0"); ok {
		t.Error("the oldest is remembered")
	}
	for range 1000 { // the same again costs nothing
		k.put(7, 7, "shop|live|same", remembered{id: "evt_02"})
	}
	k.get(8, "")
	if entries, bytes := k.size(); entries != 0 || bytes != 0 {
		t.Errorf("after the epoch changed: %d entries of %d bytes", entries, bytes)
	}
}

func TestKnownBelongsToOneEpoch(t *testing.T) {
	k := newKnown(1<<20, 0)
	k.put(0, 0, "a", remembered{id: "1"})
	k.put(1, 2, "b", remembered{id: "2"}) // began before the epoch changed
	k.put(2, 2, "c", remembered{id: "3"})
	k.put(1, 1, "d", remembered{id: "4"}) // a straggler
	for key, want := range map[string]bool{"a": false, "b": false, "c": true, "d": false} {
		if _, ok := k.get(2, key); ok != want {
			t.Errorf("%s is known: %t", key, ok)
		}
	}
	if _, ok := k.get(1, "c"); !ok {
		t.Error("a straggler that asks empties the cache")
	}
}
