package inbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/storetest"
)

// R1.7, R1.9: every statement of the inbox's transaction fails once in turn,
// before and after it was done, for every kind of reason, and so does the
// commit. What was acknowledged is there, whole and with its work; nothing is
// there by half; and the provider's repetition completes the rest.
func TestEveryCallFailsOnce(t *testing.T) { onLedgers(t, testEveryCallFailsOnce) }

func testEveryCallFailsOnce(t *testing.T, open func() store.Store) {
	f := storetest.NewFault(open())
	in := start(t, f, inbox.Options{Flushers: 1})
	reasons := []error{store.ErrUnavailable, store.ErrBusy, store.ErrCommitUnknown, errors.New("value out of range")}
	tried, owed := 0, map[string]bool{}
	try := func(rule storetest.Rule) (met bool) {
		tried++
		drafts := mixed(t, in, fmt.Sprint("case", tried))
		f.Arm(rule)
		receipts, err := in.PutAll(t.Context(), drafts)
		met = f.Fired() > 0
		f.Arm()
		name := fmt.Sprintf("call %s %d, after %t, %v", rule.Call, rule.Nth, rule.After, rule.Err)
		refused := false
		for i, r := range receipts {
			refused = refused || r.ID == ""
			if r.ID != "" {
				acknowledged(t, f, name, drafts[i], r)
			}
		}
		if refused != errors.Is(err, inbox.ErrNotStored) {
			t.Errorf("%s: %+v, %v", name, receipts, err)
		}
		if receipts, err = in.PutAll(t.Context(), drafts); err != nil {
			t.Errorf("%s: the repetition: %v", name, err)
		}
		for i, r := range receipts {
			acknowledged(t, f, name, drafts[i], r)
			if !drafts[i].Malformed && r.ID == drafts[i].ID {
				owed[r.ID] = true
			}
		}
		return met
	}
	for _, reason := range reasons {
		for _, after := range []bool{false, true} {
			nth := 1
			for try(storetest.Rule{Call: storetest.CallAny, Nth: nth, After: after, Err: reason}) {
				nth++
			}
			if nth < 6 {
				t.Errorf("only %d calls were met", nth-1)
			}
			try(storetest.Rule{Call: storetest.CallBegin, Nth: 1, After: after, Err: reason})
		}
	}
	for _, after := range []bool{false, true} {
		for nth := range 2 {
			if !try(storetest.Rule{Call: storetest.CallCommit, Nth: nth, After: after, Err: store.ErrCommitUnknown}) {
				t.Error("no commit was met")
			}
		}
	}
	wholeLedger(t, f, owed)
}

// mixed is a batch of everything: a new event, a copy of a stored one, a
// variant of it, a malformed one, and a copy inside the batch.
func mixed(t *testing.T, in *inbox.Inbox, name string) []inbox.Draft {
	put(t, in, draft(name+"-old", 1))
	bad := evidence(name+"-bad", 1)
	bad.ParseError = errors.New("unreadable")
	return []inbox.Draft{
		draft(name+"-new", 1), draft(name+"-old", 1), draft(name+"-old", 2), inbox.NewDraft(bad), draft(name+"-new", 1),
	}
}

// acknowledged checks that what the receipt speaks of is durable and says what
// the draft says.
func acknowledged(t *testing.T, s store.Store, name string, d inbox.Draft, r inbox.Receipt) {
	t.Helper()
	e := entry(t, s, r.ID)
	if !bytes.Equal(e.FactDigest, d.FactDigest) || (e.VariantOf != "") != r.Variant {
		t.Errorf("%s: %+v was acknowledged as %+v", name, d.Identity, e.Entry)
	}
}

// wholeLedger checks that every entry has its bytes, and its work or its final
// state and exception, each once.
func wholeLedger(t *testing.T, s store.Store, owed map[string]bool) {
	t.Helper()
	all, queued := entries(t, s), work(t, s)
	identities := map[string]bool{}
	dead := 0
	for id, e := range all {
		if identities[e.Identity] {
			t.Errorf("%s is stored twice", e.Identity)
		}
		identities[e.Identity] = true
		if (queued[id] == "") != (e.State == store.EntryDead) || e.Malformed != (e.State == store.EntryDead) {
			t.Errorf("entry %s is %s, lane %q", e.Identity, e.State, queued[id])
		}
		if e.State == store.EntryDead {
			dead++
		}
		err := s.View(t.Context(), func(r store.Reader) error {
			_, err := r.Body(t.Context(), id)
			return err
		})
		if err != nil {
			t.Errorf("the body of %s: %v", e.Identity, err)
		}
	}
	for id := range owed {
		if queued[id] == "" {
			t.Errorf("entry %s has no work", id)
		}
	}
	if dead == 0 || len(queued) != len(all)-dead {
		t.Errorf("%d entries, %d dead, %d with work", len(all), dead, len(queued))
	}
}
