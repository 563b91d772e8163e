package inbox

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/store"
)

// proofKey is the setting that is written where a transaction would otherwise
// write nothing: only a write after a row was seen proves that the row, whose
// commit was in doubt, is durable.
const proofKey = "inbox.proof"

// What is said of a dead letter that was malformed at receipt.
const (
	kindDeadLetter   = "dead_letter"
	reasonDeadLetter = "dead_letter"
	reasonMalformed  = "malformed"
	urgencyMalformed = "normal"
)

// batch is one transaction. A store may run it several times: run begins by
// forgetting the run before.
type batch struct {
	in    *Inbox
	rows  []*pending
	epoch uint64

	receipts []Receipt
	learned  []learned
	fresh    []int          // rows that are new
	variants []int          // rows whose facts differ from the stored entry's
	original []string       // by row: the entry of the same identity, for variants
	counts   map[string]int // deliveries by entry
	own      bool           // a row was there under our own id
}

type learned struct {
	key string
	remembered
}

func newBatch(in *Inbox, rows []*pending) *batch { return &batch{in: in, rows: rows} }

func (b *batch) reset() {
	b.receipts = make([]Receipt, len(b.rows))
	b.original = make([]string, len(b.rows))
	b.learned, b.fresh, b.variants, b.own = b.learned[:0], b.fresh[:0], b.variants[:0], false
	b.counts = map[string]int{}
}

// run stores the entries, counts copies, keeps variants, and leaves the work
// for apply, in this order: identities first, because their constraint is what
// decides; the counts before the variants, because they lock the original, so
// that the variants of one event are counted one after the other.
func (b *batch) run(ctx context.Context, tx store.Tx) error {
	b.reset()
	if err := b.insert(ctx, tx); err != nil {
		return err
	}
	if err := b.countCopies(ctx, tx); err != nil {
		return err
	}
	if len(b.variants) > 0 {
		if err := b.keepVariants(ctx, tx); err != nil {
			return err
		}
		if err := b.countCopies(ctx, tx); err != nil {
			return err
		}
	}
	if err := b.enqueue(ctx, tx); err != nil {
		return err
	}
	if err := b.file(ctx, tx); err != nil {
		return err
	}
	return b.prove(ctx, tx)
}

func (b *batch) insert(ctx context.Context, tx store.Tx) error {
	entries := make([]store.EntryWithBody, len(b.rows))
	for i, p := range b.rows {
		entries[i] = p.EntryWithBody
	}
	inserted, err := tx.InsertEntries(ctx, entries)
	if err != nil {
		return fmt.Errorf("storing %d entries: %w", len(entries), err)
	}
	for i, got := range inserted {
		e := &b.rows[i].Entry
		b.saw(e.Scope, e.Identity, got)
		switch {
		case got.New:
			b.fresh = append(b.fresh, i)
			b.receipts[i] = Receipt{ID: got.ID}
		case got.ID == e.ID:
			b.own = true
			b.receipts[i] = Receipt{ID: got.ID}
		case bytes.Equal(got.FactDigest, e.FactDigest):
			b.copyOf(i, got, false)
		default:
			b.original[i] = got.ID
			b.variants = append(b.variants, i)
			b.counts[got.ID]++
		}
	}
	return nil
}

// copyOf makes the row a counted duplicate of the stored entry.
func (b *batch) copyOf(row int, got store.Inserted, variant bool) {
	b.counts[got.ID]++
	b.receipts[row] = Receipt{
		ID: got.ID, Duplicate: true, Variant: variant, OtherBytes: !bytes.Equal(got.BodyDigest, b.rows[row].BodyDigest),
	}
}

// countCopies writes the counts and begins them anew.
func (b *batch) countCopies(ctx context.Context, tx store.Tx) error {
	if len(b.counts) == 0 {
		return nil
	}
	if err := tx.CountDeliveries(ctx, b.counts, b.in.opt.Now().UTC()); err != nil {
		return fmt.Errorf("counting deliveries of %d entries: %w", len(b.counts), err)
	}
	b.counts, b.own = map[string]int{}, false // a write that proves as well
	return nil
}

// keepVariants stores copies with other facts as entries of their own, up to
// the bound for each event; more are only counted.
func (b *batch) keepVariants(ctx context.Context, tx store.Tx) error {
	kept := map[string]map[digest]bool{}
	var rows []int
	var entries []store.EntryWithBody
	for _, i := range b.variants {
		p, of := b.rows[i], b.original[i]
		if kept[of] == nil {
			var err error
			if kept[of], err = b.variantsOf(ctx, tx, of); err != nil {
				return err
			}
		}
		fact := toDigest(p.FactDigest)
		if !kept[of][fact] && len(kept[of]) >= b.in.opt.VariantsMax {
			b.receipts[i] = Receipt{ID: of, Duplicate: true, OtherBytes: true}
			b.in.opt.Logger.Warn("a copy with other facts is only counted", "event", of, "kept", len(kept[of]))
			continue
		}
		kept[of][fact] = true
		e := p.EntryWithBody
		e.Identity, e.VariantOf = variantIdentity(p.Identity, p.FactDigest), of
		rows, entries = append(rows, i), append(entries, e)
	}
	if len(entries) == 0 {
		return nil
	}
	inserted, err := tx.InsertEntries(ctx, entries)
	if err != nil {
		return fmt.Errorf("storing %d variants: %w", len(entries), err)
	}
	for n, got := range inserted {
		i := rows[n]
		b.saw(entries[n].Scope, entries[n].Identity, got)
		switch {
		case got.New:
			b.fresh = append(b.fresh, i)
			b.receipts[i] = Receipt{ID: got.ID, Variant: true}
		case got.ID == entries[n].ID:
			b.receipts[i] = Receipt{ID: got.ID, Variant: true}
		default:
			b.copyOf(i, got, true)
		}
	}
	return nil
}

// variantsOf returns the digests of the variants that are kept of an entry.
func (b *batch) variantsOf(ctx context.Context, tx store.Tx, entry string) (map[digest]bool, error) {
	stored, err := tx.Entries(ctx, store.List{Where: map[string]string{"variant_of": entry}, Limit: b.in.opt.VariantsMax + 1})
	if err != nil {
		return nil, fmt.Errorf("reading the variants of event %s: %w", entry, err)
	}
	kept := make(map[digest]bool, len(stored))
	for _, s := range stored {
		kept[toDigest(s.FactDigest)] = true
	}
	return kept, nil
}

// enqueue leaves the work of new entries to apply. Malformed ones have none.
func (b *batch) enqueue(ctx context.Context, tx store.Tx) error {
	work := make([]store.Work, 0, len(b.fresh))
	for _, i := range b.fresh {
		if p := b.rows[i]; !p.Malformed {
			work = append(work, store.Work{Queue: store.QueueInbox, ID: p.ID, Lane: p.Lane})
		}
	}
	if len(work) == 0 {
		return nil
	}
	if err := tx.Enqueue(ctx, work); err != nil {
		return fmt.Errorf("enqueueing %d entries: %w", len(work), err)
	}
	return nil
}

// file passes new events on to those who asked for them, and gives malformed
// entries their final state and the exception by which a person finds them.
func (b *batch) file(ctx context.Context, tx store.Tx) error {
	now := b.in.opt.Now().UTC().Truncate(time.Microsecond)
	var changes store.Changes
	for _, i := range b.fresh {
		p := b.rows[i]
		if !slices.Contains(b.variants, i) {
			changes.Messages = append(changes.Messages, b.in.opt.Forward(p.EntryWithBody, p.Lane)...)
		}
		if !p.Malformed {
			continue
		}
		e := b.deadLetter(p, now)
		changes.Results = append(changes.Results, store.Result{
			EntryID: p.ID, State: store.EntryDead, Reason: reasonMalformed, Error: p.Flaw, At: now,
		})
		changes.Exceptions = append(changes.Exceptions, e)
		changes.Messages = append(changes.Messages, b.in.opt.Notices(e)...)
	}
	if len(changes.Results) == 0 && len(changes.Messages) == 0 {
		return nil
	}
	if err := tx.Save(ctx, changes); err != nil {
		return fmt.Errorf("filing %d malformed entries and %d messages: %w", len(changes.Results), len(changes.Messages), err)
	}
	return nil
}

type deadLetterDetail struct {
	Reason string `json:"reason"`
	Type   string `json:"type,omitzero"`
}

// deadLetter is the exception of a malformed entry. Its condition is the one
// under which apply files its dead letters.
func (b *batch) deadLetter(p *pending, now time.Time) store.Exception {
	detail, err := json.Marshal(deadLetterDetail{Reason: p.Flaw, Type: p.Type})
	if err != nil {
		panic("inbox: impossible: " + err.Error()) // both texts are valid UTF-8
	}
	return store.Exception{
		ID: b.in.opt.NewID(id.Exception), Kind: kindDeadLetter, Condition: p.ID + "|" + reasonDeadLetter + "|",
		Subject: p.ID, Reason: reasonDeadLetter, State: store.ExceptionOpen, Account: p.Scope.Account, Event: p.ID,
		ProviderEventID: p.ProviderEventID, Urgency: urgencyMalformed, Detail: detail, OpenedAt: now, UpdatedAt: now,
	}
}

// prove writes something if the transaction has found only rows of its own
// earlier run, so that its commit proves that run.
func (b *batch) prove(ctx context.Context, tx store.Tx) error {
	if !b.own || len(b.fresh) > 0 {
		return nil
	}
	if err := tx.SetSetting(ctx, proofKey, b.rows[0].ID); err != nil {
		return fmt.Errorf("proving an earlier commit: %w", err)
	}
	return nil
}

func (b *batch) saw(s store.Scope, identity string, got store.Inserted) {
	b.learned = append(b.learned, learned{
		key:        knownKey(s, identity),
		remembered: remembered{id: got.ID, fact: toDigest(got.FactDigest), body: toDigest(got.BodyDigest)},
	})
}
