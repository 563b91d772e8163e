package inbox_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/store"
)

// R1.3: the same event in other bytes is the same event; a copy that carries
// new facts is new evidence, kept once as a variant.
func TestVariant(t *testing.T) { onLedgers(t, testVariant) }

func testVariant(t *testing.T, open func() store.Store) {
	s := open()
	in := start(t, s, inbox.Options{})
	original := put(t, in, draft("e1", 100))

	reserialized := evidence("e1", 100)
	reserialized.Payload = []byte("e1   100")
	if r := put(t, in, inbox.NewDraft(reserialized)); r != (inbox.Receipt{ID: original.ID, Duplicate: true, OtherBytes: true}) {
		t.Errorf("other bytes: %+v", r)
	}
	d := draft("e1", 200)
	if r := put(t, in, d); r != (inbox.Receipt{ID: d.ID, Variant: true}) {
		t.Errorf("other facts: %+v", r)
	}
	e := entry(t, s, d.ID)
	if e.VariantOf != original.ID || e.Identity != "e1#"+hex.EncodeToString(d.FactDigest) || e.ProviderEventID != "e1" {
		t.Errorf("variant %+v", e.Entry)
	}
	for range 2 {
		if r := put(t, in, draft("e1", 200)); r != (inbox.Receipt{ID: d.ID, Duplicate: true, Variant: true}) {
			t.Errorf("the variant again: %+v", r)
		}
	}
	// A process that has not seen any of it judges the same.
	other := start(t, s, inbox.Options{})
	if r := put(t, other, draft("e1", 200)); r != (inbox.Receipt{ID: d.ID, Duplicate: true, Variant: true}) {
		t.Errorf("elsewhere: %+v", r)
	}
	if r := put(t, other, draft("e1", 100)); r != (inbox.Receipt{ID: original.ID, Duplicate: true}) {
		t.Errorf("elsewhere: %+v", r)
	}
	if got := work(t, s); len(got) != 2 || got[d.ID] != "shop/live//line_e1" {
		t.Errorf("work %v", got)
	}
}

// All variants in one batch, and from two processes at once: each once, never
// more than the bound.
func TestVariantsAreBounded(t *testing.T) { onLedgers(t, testVariantsAreBounded) }

func testVariantsAreBounded(t *testing.T, open func() store.Store) {
	s := open()
	inboxes := []*inbox.Inbox{start(t, s, inbox.Options{}), start(t, open(), inbox.Options{})}
	original := put(t, inboxes[0], draft("e1", 0))
	var clients sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for c := range 24 {
		clients.Go(func() {
			r, err := inboxes[c%2].Put(t.Context(), draft("e1", int64(1+c%12)))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !r.Duplicate {
				fresh++
			}
			if !r.Variant && (r.ID != original.ID || !r.Duplicate) {
				t.Errorf("receipt %+v", r)
			}
		})
	}
	clients.Wait()
	variants := 0
	for _, e := range entries(t, s) {
		if e.VariantOf == original.ID {
			variants++
		}
	}
	if variants != inbox.DefaultVariantsMax || fresh != variants {
		t.Errorf("%d variants, %d receipts of them, want %d", variants, fresh, inbox.DefaultVariantsMax)
	}
	// The bound keeps other facts out, not other copies. One flusher keeps the
	// order of the items, so that it is known which of them is the original.
	ordered := start(t, open(), inbox.Options{Flushers: 1})
	var drafts []inbox.Draft
	for i := range 6 {
		drafts = append(drafts, draft("e2", int64(i%3)))
	}
	receipts, err := ordered.PutAll(t.Context(), drafts)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range receipts {
		if want := (inbox.Receipt{ID: drafts[i%3].ID, Duplicate: i >= 3, Variant: i%3 > 0}); r != want {
			t.Errorf("item %d: %+v, want %+v", i, r, want)
		}
	}
}

// R6.2: an authentic payload that cannot be understood is stored, acknowledged,
// and dead at once, with an exception and without work.
func TestMalformed(t *testing.T) { onLedgers(t, testMalformed) }

func testMalformed(t *testing.T, open func() store.Store) {
	s := open()
	in := start(t, s, inbox.Options{Notices: func(e store.Exception) []store.Message {
		return []store.Message{{
			ID: "msg_" + e.Event, Destination: "desk", Type: "exception.opened", Account: e.Account, Cause: e.ID, Lane: e.ID,
			Body: []byte(`{}`), State: store.MessagePending, CreatedAt: begin, NextAt: begin,
		}}
	}})
	ev := evidence("e1", 1)
	ev.ParseError = errors.New("field amount is \x00\xff no integer" + strings.Repeat("é", 1000))
	ev.Event.Facts, ev.Event.Names = nil, nil
	d := inbox.NewDraft(ev)
	if r := put(t, in, d); r != (inbox.Receipt{ID: d.ID}) {
		t.Errorf("receipt %+v", r)
	}
	e := entry(t, s, d.ID)
	if e.State != store.EntryDead || e.Reason != "malformed" || !e.Malformed || !strings.HasPrefix(e.Error, "field amount is \uFFFD\uFFFD no integer") || len(e.Error) > 1024 {
		t.Errorf("entry %+v", e)
	}
	err := s.View(t.Context(), func(r store.Reader) error {
		open, err := r.Exceptions(t.Context(), store.List{Where: map[string]string{"event": d.ID}, Limit: 10})
		if err != nil {
			return err
		}
		if len(open) != 1 || open[0].Kind != "dead_letter" || open[0].State != store.ExceptionOpen || open[0].ProviderEventID != "e1" {
			t.Errorf("exceptions %+v", open)
		}
		b, err := r.Body(t.Context(), d.ID)
		if !bytes.Equal(b.Bytes, ev.Payload) {
			t.Errorf("body %q", b.Bytes)
		}
		if m, err := r.Message(t.Context(), "msg_"+d.ID); err != nil || m.Destination != "desk" {
			t.Errorf("notice %+v, %v", m, err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := work(t, s); len(got) != 0 {
		t.Errorf("work %v", got)
	}
	if claim, err := s.Claim(t.Context(), store.ClaimRequest{Queue: store.QueueOutbox("desk"), Lanes: 1, PerLane: 1, Lease: 1e9}); err != nil || len(claim.Items) != 1 {
		t.Errorf("work of the notice: %+v, %v", claim, err)
	}
	if r := put(t, in, inbox.NewDraft(ev)); !r.Duplicate || r.ID != d.ID {
		t.Errorf("the same bytes again: %+v", r)
	}
	// A readable copy is new evidence.
	good := draft("e1", 1)
	if r := put(t, in, good); r != (inbox.Receipt{ID: good.ID, Variant: true}) {
		t.Errorf("a readable copy: %+v", r)
	}
	if e := entry(t, s, good.ID); e.State != store.EntryReceived {
		t.Errorf("a readable copy is %s", e.State)
	}
}

// R1.3: only a body without any identity is kept under its digest.
func TestWithoutIdentity(t *testing.T) { onLedgers(t, testWithoutIdentity) }

func testWithoutIdentity(t *testing.T, open func() store.Store) {
	s := open()
	in := start(t, s, inbox.Options{})
	var ids []string
	for i := range 4 {
		ev := evidence("", 1)
		ev.Event.ProviderEventID, ev.ParseError = "", errors.New("no identity")
		ev.Payload = fmt.Appendf(nil, "garbage %d", i%2)
		ids = append(ids, put(t, in, inbox.NewDraft(ev)).ID)
	}
	if ids[0] != ids[2] || ids[1] != ids[3] || ids[0] == ids[1] {
		t.Errorf("ids %q", ids)
	}
	e := entry(t, s, ids[0])
	if e.Identity != "digest:"+hex.EncodeToString(e.BodyDigest) || e.ProviderEventID != e.Identity {
		t.Errorf("identity %q", e.Identity)
	}
}
