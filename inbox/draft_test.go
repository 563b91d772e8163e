package inbox_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/payment"
)

var facts = rapid.Custom(func(t *rapid.T) payment.Fact {
	word := rapid.SampledFrom([]string{"", "a", "b", "ab", "pi_1"})
	return payment.Fact{
		Kind: payment.Kind(word.Draw(t, "kind")), Form: payment.Form(word.Draw(t, "form")), Object: word.Draw(t, "object"),
		Parent: word.Draw(t, "parent"), Stage: payment.Stage(word.Draw(t, "stage")), Round: rapid.IntRange(0, 2).Draw(t, "round"),
		Amount: payment.Money{Value: rapid.Int64Range(0, 2).Draw(t, "value"), Currency: word.Draw(t, "currency")},
		Covers: rapid.SliceOfN(word, 0, 2).Draw(t, "covers"), Loud: rapid.Bool().Draw(t, "loud"),
	}
})

// R1.3: the digest is of the set of facts and names, and of nothing else.
func TestFactDigestIsOfSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := payment.Evidence{
			Facts: rapid.SliceOfN(facts, 0, 4).Draw(t, "facts"),
			Names: rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "xy", "z"}), 0, 4).Draw(t, "names"),
		}
		shuffled := e
		shuffled.Facts = append(rapid.Permutation(e.Facts).Draw(t, "order of facts"), e.Facts...)
		shuffled.Names = append(rapid.Permutation(e.Names).Draw(t, "order of names"), e.Names...)
		before := slices.Clone(e.Names)
		if !bytes.Equal(inbox.FactDigest(e), inbox.FactDigest(shuffled)) {
			t.Fatalf("the order or repetition changes the digest of %+v", e)
		}
		if !slices.Equal(before, e.Names) {
			t.Fatal("the evidence was changed")
		}
	})
}

// Every field that evidence has makes a difference; a field that is added to
// the types and forgotten in the digest fails here.
func TestFactDigestSeesEveryField(t *testing.T) {
	digests := map[string]string{string(inbox.FactDigest(payment.Evidence{Facts: []payment.Fact{{}}})): "nothing"}
	see := func(name string, e payment.Evidence) {
		d := string(inbox.FactDigest(e))
		if other, ok := digests[d]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		digests[d] = name
	}
	fill := func(name string, v reflect.Value, then func(name string)) {
		var walk func(string, reflect.Value)
		walk = func(name string, v reflect.Value) {
			switch v.Kind() {
			case reflect.Struct:
				for i := range v.NumField() {
					walk(name+"."+v.Type().Field(i).Name, v.Field(i))
				}
				return
			case reflect.String:
				v.SetString("x")
			case reflect.Bool:
				v.SetBool(true)
			case reflect.Int, reflect.Int64:
				v.SetInt(1)
			case reflect.Slice:
				if v.Type().Elem().Kind() != reflect.String {
					return // facts, filled on their own
				}
				v.Set(reflect.ValueOf([]string{"x"}))
			default:
				t.Fatalf("%s is of a kind that this test does not know", name)
			}
			then(name)
			v.SetZero()
		}
		walk(name, v)
	}
	var f payment.Fact
	fill("fact", reflect.ValueOf(&f).Elem(), func(name string) { see(name, payment.Evidence{Facts: []payment.Fact{f}}) })
	e := payment.Evidence{Facts: []payment.Fact{{}}}
	fill("evidence", reflect.ValueOf(&e).Elem(), func(name string) { see(name, e) })
	see("two facts", payment.Evidence{Facts: []payment.Fact{{}, {Object: "y"}}})
	see("no fact", payment.Evidence{})
}

// Whatever a provider sends, texts are valid, bounded and free of NUL, equal
// names stay equal and different ones different, and the bytes are untouched.
func TestDraftTexts(t *testing.T) {
	nasty := rapid.OneOf(
		rapid.String(), rapid.StringMatching(`(digest:|hashed:)?[a-z#]{0,4}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) string { return string(b) }),
		rapid.Just(strings.Repeat("x", 256)), rapid.Just(strings.Repeat("x", 257)), rapid.Just("ñ"), rapid.Just("a b"), rapid.Just("a\x00"),
	)
	rapid.Check(t, func(t *rapid.T) {
		make1 := func(n string) (inbox.Evidence, inbox.Draft) {
			ev := evidence(nasty.Draw(t, "identity"+n), 1)
			ev.Event.Type, ev.Event.ProviderEventID = nasty.Draw(t, "type"+n), nasty.Draw(t, "event"+n)
			ev.Event.Connected, ev.Event.Lane = nasty.Draw(t, "connected"+n), nasty.Draw(t, "lane"+n)
			ev.Event.OccurredAt = time.Unix(rapid.Int64().Draw(t, "time"+n), 0)
			ev.ParseError = errors.New(nasty.Draw(t, "flaw"+n))
			return ev, inbox.NewDraft(ev)
		}
		ev, d := make1("1")
		for _, s := range []string{d.Identity, d.ProviderEventID, d.Type, d.Scope.Connected, d.Lane, d.Flaw} {
			if !utf8.ValidString(s) || strings.Contains(s, "\x00") || len(s) > 1024 {
				t.Fatalf("text %q", s)
			}
		}
		if d.Identity == "" || d.ProviderEventID == "" || len(d.Identity) > 255 || strings.Contains(d.Identity, "#") {
			t.Fatalf("identity %q of event %q", d.Identity, d.ProviderEventID)
		}
		if !bytes.Equal(d.Bytes, ev.Payload) {
			t.Fatal("the bytes changed")
		}
		if !d.OccurredAt.IsZero() {
			if _, err := d.OccurredAt.MarshalJSON(); err != nil {
				t.Fatal(err)
			}
		}
		if other, o := make1("2"); ev.Event.Identity != "" && (ev.Event.Identity == other.Event.Identity) != (d.Identity == o.Identity) {
			t.Fatalf("%q and %q become %q and %q", ev.Event.Identity, other.Event.Identity, d.Identity, o.Identity)
		}
	})
}

// A hint is unsigned by contract: it says nothing, whatever it says.
func TestHintHasNoFacts(t *testing.T) {
	ev := evidence("e1", 1)
	ev.Hint = true
	if d := inbox.NewDraft(ev); !bytes.Equal(d.FactDigest, inbox.FactDigest(payment.Evidence{})) {
		t.Error("a hint has facts")
	}
}
