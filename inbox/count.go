package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/unavez/unavez/store"
)

// counts are repeated deliveries that were answered from memory and are not in
// the ledger yet.
type counts struct {
	mu      sync.Mutex
	byEntry map[string]int
	max     int
}

// add counts a delivery; false when there is no room, and the ledger has to
// count it.
func (c *counts) add(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byEntry[id]; !ok && len(c.byEntry) >= c.max {
		return false
	}
	c.byEntry[id]++
	return true
}

func (c *counts) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.byEntry
	c.byEntry = map[string]int{}
	return taken
}

// giveBack adds what could not be written; the bound may be passed by what was
// in flight, once.
func (c *counts) giveBack(taken map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range taken {
		c.byEntry[id] += n
	}
}

// count writes the counts down every so often until the inbox stops.
func (in *Inbox) count(stop <-chan struct{}) {
	ticker := time.NewTicker(in.opt.CountEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			if err := in.writeCounts(in.ctx); err != nil {
				in.opt.Logger.Warn("repeated deliveries are not counted yet", "error", err)
			}
		}
	}
}

// writeCounts writes the counts of repeated deliveries. They are statistics:
// after a commit in doubt they are not written twice.
func (in *Inbox) writeCounts(ctx context.Context) error {
	taken := in.counts.take()
	if len(taken) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, in.opt.FlushTimeout)
	defer cancel()
	err := in.store.InTx(ctx, in.txOptions(), func(tx store.Tx) error {
		return tx.CountDeliveries(ctx, taken, in.opt.Now().UTC())
	})
	if err == nil {
		return nil
	}
	if unavailable(err) && !errors.Is(err, store.ErrCommitUnknown) {
		in.counts.giveBack(taken)
	}
	return fmt.Errorf("counting deliveries of %d entries: %w", len(taken), err)
}
