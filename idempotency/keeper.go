package idempotency

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/unavez/unavez/store"
)

// States of a kept key.
const (
	stateRunning = "running"
	stateDone    = "done"
	// stateExpired is a tombstone: the answer is gone, the key stays taken.
	stateExpired = "expired"
)

// Defaults and bounds.
const (
	DefaultLifetime   = 24 * time.Hour
	DefaultLease      = time.Minute
	DefaultSweepEvery = 10 * time.Minute
	DefaultSweepBatch = 500

	// handlerShare is the part of the lease that the handler may take, so that
	// nobody takes a key over from a request that is still being served.
	handlerShare = 2
	retryAfter   = time.Second
	// writeWithin bounds one transaction of this package.
	writeWithin = 10 * time.Second
)

// Options configure a Keeper; zero values are the defaults.
type Options struct {
	// Lifetime is how long an answer is replayed; the tombstone stays as long again.
	Lifetime time.Duration
	// Lease is how long a running request keeps its key without an answer. The
	// handler gets half of it as its deadline.
	Lease time.Duration
	// SweepEvery is the pause between two removals of old keys, SweepBatch the
	// number of keys that one transaction removes.
	SweepEvery time.Duration
	SweepBatch int
	// Clock is the ledger's by default, so that all processes agree on leases.
	Clock  func(context.Context) (time.Time, error)
	Logger *slog.Logger
}

// Keeper keeps answers in a ledger. It is safe for concurrent use, in one
// process and in many.
type Keeper struct {
	store store.Store
	opt   Options

	cancel   context.CancelFunc
	sweeping sync.WaitGroup
}

// New checks the options.
func New(s store.Store, opt Options) (*Keeper, error) {
	setDefault(&opt.Lifetime, DefaultLifetime)
	setDefault(&opt.Lease, DefaultLease)
	setDefault(&opt.SweepEvery, DefaultSweepEvery)
	setDefault(&opt.SweepBatch, DefaultSweepBatch)
	if opt.Clock == nil {
		opt.Clock = s.Now
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Lifetime < 0 || opt.Lease < 0 || opt.SweepEvery < 0 || opt.SweepBatch < 0 {
		return nil, errors.New("idempotency: a time or a number is negative")
	}
	if opt.Lifetime < opt.Lease {
		return nil, fmt.Errorf("idempotency: lifetime %s is shorter than the lease %s", opt.Lifetime, opt.Lease)
	}
	return &Keeper{store: s, opt: opt}, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// verdict is what becomes of a request with a key.
type verdict int

const (
	run verdict = iota
	replay
)

// begin claims the key, in a transaction of its own, or says why it cannot be had.
func (k *Keeper) begin(ctx context.Context, want store.IdempotencyKey) (store.IdempotencyKey, verdict, error) {
	now, err := k.opt.Clock(ctx)
	if err != nil {
		return want, run, fmt.Errorf("%w: reading the clock: %w", ErrNotKept, err)
	}
	now = now.UTC().Truncate(time.Microsecond)
	want.State, want.Token = stateRunning, rand.Text()
	want.CreatedAt, want.ExpiresAt, want.LeaseAt = now, now.Add(k.opt.Lifetime), now.Add(k.opt.Lease)
	var row store.IdempotencyKey
	var v verdict
	var refusal error
	err = k.inTx(ctx, func(tx store.Tx) error {
		stored, fresh, err := tx.BeginKey(ctx, want)
		row, v, refusal = want, run, nil
		if err != nil || fresh {
			return err
		}
		row, v, refusal = k.judge(stored, want, now)
		if refusal == nil && v == run || errors.Is(refusal, ErrExpired) && stored.State != stateExpired {
			return tx.PutKey(ctx, row)
		}
		return nil
	})
	if err != nil {
		return want, run, fmt.Errorf("%w: beginning: %w", ErrNotKept, err)
	}
	return row, v, refusal
}

// judge decides over a key that is stored. The row that it returns is what
// stands for the key from now on.
func (k *Keeper) judge(stored, want store.IdempotencyKey, now time.Time) (store.IdempotencyKey, verdict, error) {
	switch {
	case !now.Before(stored.ExpiresAt.Add(k.opt.Lifetime)):
		return want, run, nil
	case !now.Before(stored.ExpiresAt):
		stored.State, stored.Header, stored.Body = stateExpired, nil, nil
		return stored, run, ErrExpired
	case !bytes.Equal(stored.Fingerprint, want.Fingerprint):
		return stored, run, ErrReused
	case stored.State == stateDone:
		return stored, replay, nil
	case stored.State == stateExpired:
		return stored, run, ErrExpired
	case now.Before(stored.LeaseAt):
		return stored, run, &InProgressError{RetryAfter: min(retryAfter, stored.LeaseAt.Sub(now))}
	}
	stored.Token, stored.LeaseAt = want.Token, want.LeaseAt
	return stored, run, nil
}

// finish stores the answer under the key, or frees the key for an answer that
// is not kept. It does nothing if the key was taken over meanwhile.
func (k *Keeper) finish(ctx context.Context, row store.IdempotencyKey, a *answer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	keep := a != nil && a.kept()
	err := k.inTx(ctx, func(tx store.Tx) error {
		stored, _, err := tx.BeginKey(ctx, row)
		switch {
		case err != nil:
			return err
		case stored.Token != row.Token:
			return errTakenOver
		case !keep:
			return tx.DeleteKey(ctx, row.Principal, row.Key)
		}
		done := row
		done.State, done.Status, done.Header, done.Body = stateDone, a.status, a.storedHeader(), a.storedBody()
		return tx.PutKey(ctx, done)
	})
	switch {
	case err == nil:
		return nil
	case !keep:
		k.opt.Logger.Warn("an idempotency key stays taken until its lease lapses", slog.String("error", err.Error()))
		return nil
	}
	return fmt.Errorf("%w: finishing: %w", ErrNotKept, err)
}

var errTakenOver = errors.New("idempotency: the lease lapsed and another request has the key")

func (k *Keeper) inTx(ctx context.Context, fn func(store.Tx) error) error {
	return k.store.InTx(ctx, store.TxOptions{Timeout: writeWithin}, fn)
}

// Start begins to remove old keys. Stop waits for it.
func (k *Keeper) Start(ctx context.Context) {
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.sweeping.Go(func() {
		ticker := time.NewTicker(k.opt.SweepEvery)
		defer ticker.Stop()
		for {
			if _, err := k.Sweep(ctx); err != nil && ctx.Err() == nil {
				k.opt.Logger.Warn("old idempotency keys not removed", slog.String("error", err.Error()))
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
}

// Stop ends the removal of old keys.
func (k *Keeper) Stop() {
	if k.cancel != nil {
		k.cancel()
		k.sweeping.Wait()
	}
}

// Sweep removes the keys whose tombstone has stood long enough, in bounded
// batches, and returns their number. What can still be replayed or refused is
// not touched.
func (k *Keeper) Sweep(ctx context.Context) (int, error) {
	removed := 0
	for {
		now, err := k.opt.Clock(ctx)
		if err != nil {
			return removed, fmt.Errorf("idempotency: reading the clock: %w", err)
		}
		n := 0
		err = k.inTx(ctx, func(tx store.Tx) error {
			var err error
			n, err = tx.SweepKeys(ctx, now.Add(-k.opt.Lifetime), k.opt.SweepBatch)
			return err
		})
		if err != nil {
			return removed, fmt.Errorf("idempotency: removing old keys: %w", err)
		}
		removed += n
		if n < k.opt.SweepBatch {
			return removed, nil
		}
	}
}

// principalKey tells whether the request carries a key that can be used.
func principalKey(r *http.Request, route *Route) (principal, key string, err error) {
	key, err = keyOf(r.Header)
	if err != nil || key == "" {
		return "", "", err
	}
	return route.Principal(r), key, nil
}
