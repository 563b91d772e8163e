package inbox

import (
	"bytes"
	"context"
	"fmt"

	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// Synchronous stores an entry and applies it in one transaction.
type Synchronous interface {
	// ApplyNow is bounded by ctx. After an error nothing is stored, except after
	// store.ErrCommitUnknown, when nobody knows. A duplicate is counted by the
	// transaction and reported as not new; nothing else is done for it.
	ApplyNow(ctx context.Context, e store.EntryWithBody, ev provider.Event) (store.Inserted, error)
}

// PutNow stores the draft and applies it in the same transaction, within
// SyncTimeout. What cannot be applied so (a malformed or a hinted payload, a
// busy or unknown payment, no room for another change at once, any error) is
// stored as received, as by Put. A commit in doubt is settled by Put too: the
// entry keeps its id, so that Put finds it or stores it.
func (in *Inbox) PutNow(ctx context.Context, s Synchronous, d Draft, ev provider.Event) (Receipt, error) {
	if d.Malformed {
		return in.Put(ctx, d)
	}
	if receipt, ok := in.repeated(&d.Entry); ok && in.counts.add(receipt.ID) {
		return receipt, nil
	}
	select {
	case in.syncs <- struct{}{}:
	default:
		return in.Put(ctx, d)
	}
	receipt, err := in.applyNow(ctx, s, d, ev)
	<-in.syncs
	if err != nil {
		in.opt.Logger.Debug("an event is stored as received", "event", d.ID, "error", err)
		return in.Put(ctx, d)
	}
	return receipt, nil
}

func (in *Inbox) applyNow(ctx context.Context, s Synchronous, d Draft, ev provider.Event) (Receipt, error) {
	if !in.queue.isOpen() {
		return Receipt{}, ErrStopped
	}
	ctx, cancel := context.WithTimeout(ctx, in.opt.SyncTimeout)
	defer cancel()
	epoch := in.store.Epoch()
	got, err := s.ApplyNow(ctx, d.EntryWithBody, ev)
	if err != nil {
		return Receipt{}, err
	}
	if !bytes.Equal(got.FactDigest, d.FactDigest) {
		return Receipt{}, fmt.Errorf("event %s is stored with other facts as %s", d.ID, got.ID)
	}
	crashpoint.Hit("inbox.committed_before_answer")
	in.known.put(epoch, in.store.Epoch(), knownKey(d.Scope, d.Identity),
		remembered{id: got.ID, fact: toDigest(got.FactDigest), body: toDigest(got.BodyDigest)})
	return Receipt{ID: got.ID, Duplicate: !got.New, OtherBytes: !bytes.Equal(got.BodyDigest, d.BodyDigest)}, nil
}
