package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/unavez/unavez/store"
)

var errMine = errors.New("an error of the caller")

var txProofs = []proof{
	{"CommitIsVisible", func(b *bench) {
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.SetSetting(ctx, "k", "v") })
		got := read(b, func(ctx context.Context, r store.Reader) (string, error) { return r.Setting(ctx, "k") })
		b.equal("setting", got, "v")
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.SetSetting(ctx, "k", "") })
		got = read(b, func(ctx context.Context, r store.Reader) (string, error) { return r.Setting(ctx, "k") })
		b.equal("setting after a second write", got, "")
		missing(b, "another setting", func(ctx context.Context, r store.Reader) (string, error) { return r.Setting(ctx, "K") })
	}},
	{"ErrorRollsBack", func(b *bench) {
		// R2.1: one transaction; if it fails, all of it is gone.
		runs := 0
		b.fails(errMine, func(ctx context.Context, tx store.Tx) error {
			runs++
			if _, err := tx.InsertEntries(ctx, []store.EntryWithBody{entry("evt_1")}); err != nil {
				return err
			}
			if err := tx.Enqueue(ctx, []store.Work{{Queue: "q", ID: "evt_1", Lane: "l"}}); err != nil {
				return err
			}
			return errMine
		})
		b.equal("runs", runs, 1)
		missing(b, "the entry", func(ctx context.Context, r store.Reader) (store.EntryStatus, error) { return r.Entry(ctx, "evt_1") })
		b.equal("work", len(b.claim("q").Items), 0)
	}},
	{"PanicRollsBack", func(b *bench) {
		func() {
			defer func() {
				if recover() != "mine" {
					b.Error("the panic did not reach the caller")
				}
			}()
			_ = b.s.InTx(b.Context(), store.TxOptions{}, func(tx store.Tx) error {
				if err := tx.SetSetting(b.Context(), "k", "v"); err != nil {
					return err
				}
				panic("mine")
			})
		}()
		missing(b, "the setting", func(ctx context.Context, r store.Reader) (string, error) { return r.Setting(ctx, "k") })
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.SetSetting(ctx, "k", "after") })
	}},
	{"ViewPanicLeavesTheStoreUsable", func(b *bench) {
		for range 20 {
			func() {
				defer func() { _ = recover() }()
				_ = b.s.View(b.Context(), func(store.Reader) error { panic("mine") })
			}()
		}
		b.view(func(context.Context, store.Reader) error { return nil })
	}},
	{"OwnErrorIsReturnedAsItIs", func(b *bench) {
		// An error of the caller's own making is not tried again, whatever it
		// wraps.
		runs := 0
		err := b.s.InTx(b.Context(), store.TxOptions{}, func(store.Tx) error {
			runs++
			return errors.Join(errMine, store.ErrConflict)
		})
		if !errors.Is(err, errMine) || runs != 1 {
			b.Fatalf("%d runs, %v", runs, err)
		}
	}},
	{"OwnWritesAreRead", func(b *bench) {
		b.tx(func(ctx context.Context, tx store.Tx) error {
			if err := tx.SetSetting(ctx, "k", "v"); err != nil {
				return err
			}
			got, err := tx.Setting(ctx, "k")
			b.equal("setting", got, "v")
			return err
		})
	}},
	{"CanceledContext", func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		err := b.s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
			if err := tx.SetSetting(ctx, "k", "v"); err != nil {
				return err
			}
			cancel()
			return tx.SetSetting(ctx, "k2", "v")
		})
		if !errors.Is(err, context.Canceled) {
			b.Fatalf("got %v, want the context's error", err)
		}
		missing(b, "the setting", func(ctx context.Context, r store.Reader) (string, error) { return r.Setting(ctx, "k") })
		if err := b.s.InTx(ctx, store.TxOptions{}, func(store.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
			b.Fatalf("beginning under a canceled context: %v", err)
		}
	}},
	{"HangUpAfterTheLastStatementStillCommits", func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		err := b.s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
			err := tx.SetSetting(ctx, "k", "v")
			cancel()
			return err
		})
		if err != nil {
			b.Fatalf("committing: %v", err)
		}
		got := read(b, func(ctx context.Context, r store.Reader) (string, error) { return r.Setting(ctx, "k") })
		b.equal("setting", got, "v")
	}},
	{"ViewIsASnapshot", func(b *bench) {
		b.view(func(ctx context.Context, r store.Reader) error {
			if _, err := r.Setting(ctx, "k"); !errors.Is(err, store.ErrNotFound) {
				b.Fatalf("before: %v", err)
			}
			b.tx(func(ctx context.Context, tx store.Tx) error { return tx.SetSetting(ctx, "k", "v") })
			if _, err := r.Setting(ctx, "k"); !errors.Is(err, store.ErrNotFound) {
				b.Fatalf("a snapshot sees what was committed later: %v", err)
			}
			return nil
		})
	}},
	{"SwallowedErrorDoesNotCommit", func(b *bench) {
		// After an error of a method only the rollback is left, also where the
		// caller forgets the error.
		b.insertPayment(pay("pay_1", "o-1"))
		err := b.s.InTx(b.Context(), store.TxOptions{}, func(tx store.Tx) error {
			if err := tx.SetSetting(b.Context(), "before", "v"); err != nil {
				return err
			}
			if err := tx.InsertPayment(b.Context(), pay("pay_1", "o-2")); !errors.Is(err, store.ErrConflict) {
				b.Errorf("inserting twice: %v", err)
			}
			if err := tx.SetSetting(b.Context(), "after", "v"); err == nil {
				b.Error("the transaction was used on")
			}
			return nil
		})
		if err == nil {
			b.Fatal("it committed")
		}
		for _, k := range []string{"before", "after"} {
			missing(b, k, func(ctx context.Context, r store.Reader) (string, error) { return r.Setting(ctx, k) })
		}
	}},
	{"NotFoundLeavesTheTransactionUsable", func(b *bench) {
		b.tx(func(ctx context.Context, tx store.Tx) error {
			if _, err := tx.Payment(ctx, "pay_none"); !errors.Is(err, store.ErrNotFound) {
				b.Fatalf("payment: %v", err)
			}
			return tx.SetSetting(ctx, "k", "v")
		})
		got := read(b, func(ctx context.Context, r store.Reader) (string, error) { return r.Setting(ctx, "k") })
		b.equal("setting", got, "v")
	}},
	{"NotFound", notFound},
	{"EmptyArguments", emptyArguments},
	{"Now", func(b *bench) {
		now, err := b.s.Now(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if now.IsZero() || now.Location() != time.UTC || !now.Equal(now.Truncate(time.Microsecond)) {
			b.Fatalf("%v is not an instant in UTC with microseconds", now)
		}
	}},
	{"CheckIsClean", func(b *bench) {
		findings, err := b.s.Check(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if len(findings) == 0 {
			b.Fatal("nothing was checked")
		}
		for _, f := range findings {
			if f.Name == "" || f.Message == "" {
				b.Errorf("finding without a name or message: %+v", f)
			}
		}
	}},
	{"Migrations", func(b *bench) {
		again, err := b.s.MigrateUp(b.Context())
		if err != nil || len(again) != 0 {
			b.Fatalf("migrating what is migrated: %v, %v", again, err)
		}
		all, err := b.s.Migrations(b.Context())
		if err != nil || len(all) == 0 {
			b.Fatalf("migrations: %v, %v", all, err)
		}
		for i, m := range all {
			if !m.Applied || m.AppliedAt.IsZero() || m.SQL == "" || m.Name == "" || m.Version != int64(i+1) {
				b.Errorf("migration %d is %+v", i+1, m)
			}
		}
	}},
	{"EpochStaysWithoutFailure", func(b *bench) {
		before := b.s.Epoch()
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.SetSetting(ctx, "k", "v") })
		b.fails(errMine, func(context.Context, store.Tx) error { return errMine })
		b.equal("epoch", b.s.Epoch(), before)
	}},
	{"Wake", func(b *bench) {
		inbox, other := b.s.Wake(store.QueueInbox), b.s.Wake("other")
		b.fails(errMine, func(ctx context.Context, tx store.Tx) error {
			if err := tx.Enqueue(ctx, []store.Work{{Queue: "other", ID: "1", Lane: "l"}}); err != nil {
				return err
			}
			return errMine
		})
		b.enqueue(store.Work{Queue: store.QueueInbox, ID: "evt_1", Lane: "l"}, store.Work{Queue: store.QueueInbox, ID: "evt_2", Lane: "l"})
		awaitWake(b.T, inbox)
		select {
		case <-other:
			b.Error("a transaction that was rolled back woke its queue")
		default:
		}
	}},
	{"Closed", func(b *bench) {
		if err := b.s.Close(); err != nil {
			b.Fatal(err)
		}
		err := b.s.InTx(b.Context(), store.TxOptions{NoRetry: true}, func(store.Tx) error { return nil })
		if !errors.Is(err, store.ErrUnavailable) {
			b.Errorf("InTx after Close: %v", err)
		}
		if err := b.s.View(b.Context(), func(store.Reader) error { return nil }); !errors.Is(err, store.ErrUnavailable) {
			b.Errorf("View after Close: %v", err)
		}
		if _, err := b.s.Claim(b.Context(), store.ClaimRequest{Queue: "q", Lanes: 1, PerLane: 1}); !errors.Is(err, store.ErrUnavailable) {
			b.Errorf("Claim after Close: %v", err)
		}
		if err := b.s.Close(); err != nil {
			b.Errorf("closing again: %v", err)
		}
	}},
}

// wakeWithin bounds a wait that normally ends at once.
const wakeWithin = 30 * time.Second

func awaitWake(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(wakeWithin):
		t.Fatal("nobody was woken")
	}
}

func notFound(b *bench) {
	missing(b, "Entry", func(ctx context.Context, r store.Reader) (store.EntryStatus, error) { return r.Entry(ctx, "x") })
	missing(b, "EntryByIdentity", func(ctx context.Context, r store.Reader) (store.EntryStatus, error) {
		return r.EntryByIdentity(ctx, live, "x")
	})
	missing(b, "Body", func(ctx context.Context, r store.Reader) (store.Body, error) { return r.Body(ctx, "x") })
	missing(b, "Payment", func(ctx context.Context, r store.Reader) (store.Payment, error) { return r.Payment(ctx, "x") })
	missing(b, "Order", func(ctx context.Context, r store.Reader) (store.Order, error) {
		return r.Order(ctx, store.OrderKey{Shop: "s", ID: "x"})
	})
	missing(b, "OrderByID", func(ctx context.Context, r store.Reader) (store.Order, error) { return r.OrderByID(ctx, "x") })
	missing(b, "Message", func(ctx context.Context, r store.Reader) (store.Message, error) { return r.Message(ctx, "x") })
	missing(b, "Exception", func(ctx context.Context, r store.Reader) (store.Exception, error) { return r.Exception(ctx, "x") })
	missing(b, "IdempotencyKey", func(ctx context.Context, r store.Reader) (store.IdempotencyKey, error) {
		return r.IdempotencyKey(ctx, "p", "k")
	})
	missing(b, "TokenByHash", func(ctx context.Context, r store.Reader) (store.Token, error) { return r.TokenByHash(ctx, []byte{1}) })
	missing(b, "Setting", func(ctx context.Context, r store.Reader) (string, error) { return r.Setting(ctx, "x") })
	b.fails(store.ErrNotFound, func(ctx context.Context, tx store.Tx) error { return tx.Reopen(ctx, "x") })
	b.fails(store.ErrNotFound, func(ctx context.Context, tx store.Tx) error { return tx.RevokeToken(ctx, "x", base) })
	b.fails(store.ErrNotFound, func(ctx context.Context, tx store.Tx) error { return tx.TouchToken(ctx, "x", base) })
	b.fails(store.ErrNotFound, func(ctx context.Context, tx store.Tx) error {
		return tx.PutKey(ctx, store.IdempotencyKey{Principal: "p", Key: "k"})
	})
}

// emptyArguments: no method minds having nothing to do.
func emptyArguments(b *bench) {
	b.tx(func(ctx context.Context, tx store.Tx) error {
		inserted, err := tx.InsertEntries(ctx, nil)
		b.equal("inserted", len(inserted), 0)
		bodies, err2 := tx.Bodies(ctx, nil)
		b.equal("bodies", len(bodies), 0)
		owners, err3 := tx.Bind(ctx, nil)
		b.equal("owners", len(owners), 0)
		woken, err4 := tx.WakeWaiting(ctx, nil)
		b.equal("woken", len(woken), 0)
		locked, err5 := tx.LockOrders(ctx, nil)
		b.equal("orders", len(locked), 0)
		payments, err6 := tx.LockPayments(ctx, nil)
		b.equal("payments", len(payments), 0)
		facts, err7 := tx.Facts(ctx, nil)
		b.equal("facts", len(facts), 0)
		return errors.Join(err, err2, err3, err4, err5, err6, err7,
			tx.CountDeliveries(ctx, nil, base), tx.Finish(ctx, nil), tx.Enqueue(ctx, nil), tx.CountAttempt(ctx, "q", "t", nil),
			tx.Complete(ctx, "q", "t", nil), tx.Postpone(ctx, "q", "t", nil), tx.Release(ctx, "q", "t"), tx.Wait(ctx, nil),
			tx.Unwait(ctx, nil), tx.Save(ctx, store.Changes{}), tx.RecordAttempts(ctx, nil, nil), tx.InsertMessages(ctx, nil),
			tx.PutExceptions(ctx, nil), tx.AppendAudit(ctx, nil))
	})
}
