package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/store"
)

// flush stores batches until the queue is closed and empty.
func (in *Inbox) flush() {
	for {
		rows := in.queue.take(in.opt.BatchRowsMax, in.opt.BatchBytesMax)
		if rows == nil {
			return
		}
		in.opt.Metrics.queued(in.queue.size())
		in.commit(rows, 0)
	}
}

// commit stores the rows and answers each of them. A batch that fails for a
// reason of its own is halved until the row that is to blame stands alone. A
// batch whose commit is in doubt is run again: its rows carry the same ids, so
// that the second run finds the first one's rows, waits for it where it is
// still on its way, and proves it by a write of its own.
func (in *Inbox) commit(rows []*pending, doubts int) {
	b := newBatch(in, rows)
	err := b.store()
	switch {
	case err == nil:
		b.learn()
		b.answer()
	case errors.Is(err, store.ErrCommitUnknown):
		in.opt.Metrics.doubts.Inc()
		if doubts == doubtsMax {
			refuse(rows, err)
			return
		}
		in.opt.Logger.Warn("the result of a commit is unknown and is looked up", "rows", len(rows), "error", err)
		in.commit(rows, doubts+1)
	case len(rows) == 1 || unavailable(err):
		refuse(rows, err)
		in.opt.Logger.Error("events are not stored", "rows", len(rows), "first", rows[0].ID, "error", err)
	default:
		in.opt.Logger.Warn("a batch is stored in parts", "rows", len(rows), "error", err)
		in.commit(rows[:len(rows)/2], doubts)
		in.commit(rows[len(rows)/2:], doubts)
	}
}

// refuse tells the rows that they are not stored.
func refuse(rows []*pending, err error) {
	for _, p := range rows {
		p.done <- outcome{err: fmt.Errorf("event %s: %w: %w", p.ID, ErrNotStored, err)}
	}
}

// store runs the batch in one transaction.
func (b *batch) store() error {
	ctx, cancel := context.WithTimeout(b.in.ctx, b.in.opt.FlushTimeout)
	defer cancel()
	ctx = crashpoint.AtCommit(ctx, "inbox.commit_sent")
	b.epoch = b.in.store.Epoch()
	err := b.in.store.InTx(ctx, b.in.txOptions(), func(tx store.Tx) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("inbox: panic in a transaction: %v", p)
			}
		}()
		if err := b.run(ctx, tx); err != nil {
			return err
		}
		crashpoint.Hit("inbox.inserted_before_commit")
		return nil
	})
	if err == nil {
		crashpoint.Hit("inbox.committed_before_answer")
		b.in.opt.Metrics.batchRows.Observe(float64(len(b.rows)))
	}
	return err
}

// answer tells the rows what became of them.
func (b *batch) answer() {
	for i, p := range b.rows {
		p.done <- outcome{receipt: b.receipts[i]}
	}
}

// learn remembers what the transaction committed or saw and then proved.
func (b *batch) learn() {
	now := b.in.store.Epoch()
	for _, l := range b.learned {
		b.in.known.put(b.epoch, now, l.key, l.remembered)
	}
}
