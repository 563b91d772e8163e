package providertest

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
)

// parse reads a payload that must be understood.
func (s Suite) parse(t *testing.T, name string, payload []byte) provider.Event {
	t.Helper()
	ev, err := s.Adapter.Parse(s.Account(), payload)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return ev
}

// Identity: an event is identified by what the contract names, however its
// bytes are written, and not by anything else (R1.2, R1.3).
func Identity(t *testing.T, s Suite) {
	seen := map[string]string{}
	for _, p := range s.Payloads {
		ev := s.parse(t, p.Name, p.Bytes)
		if ev.Identity != p.Identity || ev.ProviderEventID == "" || ev.Type == "" || ev.Lane == "" {
			t.Errorf("%s: identity %q, want %q; %+v", p.Name, ev.Identity, p.Identity, ev)
		}
		if ev.Mode != provider.Live && ev.Mode != provider.Test {
			t.Errorf("%s: mode %q", p.Name, ev.Mode)
		}
		if other, twice := seen[ev.Identity]; twice {
			t.Errorf("%s and %s are one event", p.Name, other)
		}
		seen[ev.Identity] = p.Name
		for i, again := range s.rewrite(t, p.Bytes) {
			if got := s.parse(t, p.Name, again); !sameEvent(got, ev) {
				t.Errorf("%s, written another way (%d): %+v, want %+v", p.Name, i, got, ev)
			}
		}
	}
}

// sameEvent compares two events; facts and names are sets.
func sameEvent(a, b provider.Event) bool {
	return reflect.DeepEqual(sorted(a), sorted(b))
}

func sorted(ev provider.Event) provider.Event {
	ev.Facts, ev.Names = slices.Clone(ev.Facts), slices.Clone(ev.Names)
	slices.SortFunc(ev.Facts, func(a, b payment.Fact) int {
		return strings.Compare(a.Key()+"\x00"+a.Variant(), b.Key()+"\x00"+b.Variant())
	})
	slices.Sort(ev.Names)
	return ev
}

// Facts: each fact has a place in the model, a stable key, and stands once; names
// are what a store can hold (R2.3, R2.8).
func Facts(t *testing.T, s Suite) {
	for _, p := range s.Payloads {
		ev := s.parse(t, p.Name, p.Bytes)
		keys := map[string]bool{}
		for _, f := range ev.Facts {
			if err := f.Validate(); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
			key := f.Key() + "\x00" + f.Variant()
			if keys[key] {
				t.Errorf("%s: the fact %q stands twice", p.Name, f.Key())
			}
			keys[key] = true
			if strings.Contains(f.Key(), ev.ProviderEventID) {
				t.Errorf("%s: the key %q holds the event's id", p.Name, f.Key())
			}
			if f.Read != 0 || len(f.Covers) != 0 {
				t.Errorf("%s: an event yields a numbered read: %+v", p.Name, f)
			}
			if f.Kind != payment.KindLink && !slices.Contains(ev.Names, f.Object) && !slices.Contains(ev.Names, f.Parent) {
				t.Errorf("%s: neither %q nor %q is among the names %q", p.Name, f.Object, f.Parent, ev.Names)
			}
		}
		for _, name := range append(slices.Clone(ev.Names), ev.Order, ev.Payment, ev.Operation) {
			if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
				t.Errorf("%s: the name %q cannot be stored", p.Name, name)
			}
		}
		if slices.Contains(ev.Names, "") || len(ev.Names) != len(slices.Compact(slices.Sorted(slices.Values(ev.Names)))) {
			t.Errorf("%s: names are empty or stand twice: %q", p.Name, ev.Names)
		}
	}
}

// Blindness: what a payload yields depends on it and on the account alone, not
// on what was read before, beside it, or afterwards (R2.3).
func Blindness(t *testing.T, s Suite) {
	first := make([]provider.Event, len(s.Payloads))
	for i, p := range s.Payloads {
		first[i] = s.parse(t, p.Name, p.Bytes)
	}
	var wg sync.WaitGroup
	for i := range s.Payloads {
		p := s.Payloads[len(s.Payloads)-1-i]
		want := first[len(s.Payloads)-1-i]
		wg.Go(func() {
			mine := bytes.Clone(p.Bytes)
			ev, err := s.Adapter.Parse(s.Account(), mine)
			if !bytes.Equal(mine, p.Bytes) {
				t.Errorf("%s: parsing has changed the payload", p.Name)
			}
			clear(mine) // the event must not live on the caller's bytes
			if err != nil || !reflect.DeepEqual(ev, want) {
				t.Errorf("%s: %+v and %v at another time, %+v at first", p.Name, ev, err, want)
			}
		})
	}
	wg.Wait()
}

// MalformedPayloads: what cannot be understood is said to be so, with the
// identity that it still shows and without any fact, and nothing panics.
func MalformedPayloads(t *testing.T, s Suite) {
	for _, m := range s.Malformed {
		ev, err := s.Adapter.Parse(s.Account(), m.Bytes)
		if !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("%s: %v, want malformed", m.Name, err)
		}
		if ev.Identity != m.Identity || len(ev.Facts) != 0 {
			t.Errorf("%s: identity %q, want %q; facts %v", m.Name, ev.Identity, m.Identity, ev.Facts)
		}
	}
	for _, p := range s.Payloads {
		for cut := range len(p.Bytes) {
			s.survive(t, p, p.Bytes[:cut])
		}
		for _, odd := range []string{"null", "[]", "0", `""`, "{}", "true", "1e999"} {
			for _, broken := range substituted(p.Bytes, odd) {
				s.survive(t, p, broken)
			}
		}
	}
}

// survive reads a damaged payload: it is understood, or refused as malformed and
// without a fact.
func (s Suite) survive(t *testing.T, p Payload, damaged []byte) {
	t.Helper()
	ev, err := s.Adapter.Parse(s.Account(), damaged)
	switch {
	case err == nil:
		for _, f := range ev.Facts {
			if bad := f.Validate(); bad != nil {
				t.Errorf("%s, damaged to %q: %v", p.Name, damaged, bad)
			}
		}
	case !errors.Is(err, provider.ErrMalformed) || len(ev.Facts) != 0:
		t.Errorf("%s, damaged to %q: %v with facts %v", p.Name, damaged, err, ev.Facts)
	}
}

// substituted returns the payload with each of its values after a colon replaced,
// one at a time; in other forms than JSON the result is merely damaged.
func substituted(payload []byte, by string) (out [][]byte) {
	for i, c := range payload {
		if c != ':' {
			continue
		}
		end := i + 1 + bytes.IndexAny(payload[i+1:], ",}\n")
		if end <= i {
			end = len(payload)
		}
		out = append(out, slices.Concat(payload[:i+1], []byte(by), payload[end:]))
	}
	return out
}
