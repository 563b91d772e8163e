package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/unavez/unavez/store"
)

const q = "q"

func work(id, lane string) store.Work { return store.Work{Queue: q, ID: id, Lane: lane} }

func later(id, lane string) store.Work {
	return store.Work{Queue: q, ID: id, Lane: lane, Delay: time.Hour}
}

func (b *bench) complete(token string, ids ...string) {
	b.Helper()
	b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Complete(ctx, q, token, ids) })
}

func (b *bench) postpone(token string, items ...store.Postponed) {
	b.Helper()
	b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Postpone(ctx, q, token, items) })
}

func (b *bench) release(token string) {
	b.Helper()
	b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Release(ctx, q, token) })
}

var workProofs = []proof{
	{"ClaimTakesWhatIsDue", func(b *bench) {
		before, err := b.s.Now(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.enqueue(work("1", "a"), later("2", "a"), later("3", "b"), store.Work{Queue: "other", ID: "4", Lane: "a"})
		c := b.claim(q)
		if len(c.Items) != 1 || c.Token == "" {
			b.Fatalf("claimed %+v", c)
		}
		it := c.Items[0]
		if it.EnqueuedAt.Before(before) || it.EnqueuedAt.After(before.Add(time.Hour)) {
			b.Errorf("enqueued at %v, before was %v", it.EnqueuedAt, before)
		}
		it.EnqueuedAt = time.Time{}
		b.equal("item", it, store.ClaimedItem{ID: "1", Lane: "a"})
	}},
	{"NothingToClaim", func(b *bench) { b.equal("items", len(b.claim(q).Items), 0) }},
	{"CompleteRemoves", func(b *bench) {
		b.enqueue(work("1", "a"), work("2", "b"))
		c := b.claim(q)
		b.complete(c.Token, "1")
		b.release(c.Token)
		b.equal("left", itemIDs(b.claim(q)), []string{"2"})
	}},
	{"CompleteTwiceInOneCallIsOnce", func(b *bench) {
		b.enqueue(work("1", "a"))
		c := b.claim(q)
		b.complete(c.Token, "1", "1")
	}},
	{"EnqueueMakesDueNoLater", func(b *bench) {
		b.enqueue(later("1", "a"))
		b.equal("kept back", len(b.claim(q).Items), 0)
		b.enqueue(work("1", "a"))
		c := b.claim(q)
		b.equal("due", itemIDs(c), []string{"1"})
		b.release(c.Token)
		b.enqueue(later("1", "a"))
		b.equal("still due", itemIDs(b.claim(q)), []string{"1"})
	}},
	{"EnqueueTwiceInOneCall", func(b *bench) {
		b.enqueue(later("1", "a"), work("1", "a"), later("1", "a"))
		b.equal("once, at the earliest", itemIDs(b.claim(q)), []string{"1"})
	}},
	{"EnqueueUnderAnotherLane", func(b *bench) {
		// One item in two lanes could be worked twice at once.
		b.enqueue(later("1", "a"))
		b.fails(store.ErrConflict, func(ctx context.Context, tx store.Tx) error {
			return tx.Enqueue(ctx, []store.Work{work("2", "b"), work("1", "b")})
		})
		b.equal("items", len(b.claim(q).Items), 0)
	}},
	{"EnqueueEndsWaiting", func(b *bench) {
		b.enqueue(work("1", "a"))
		c := b.claim(q)
		b.postpone(c.Token, store.Postponed{ID: "1", Delay: time.Hour, Waiting: true, Error: "no payment yet"})
		b.release(c.Token)
		b.equal("kept back", len(b.claim(q).Items), 0)
		b.enqueue(work("1", "a"))
		it := b.claim(q).Items[0]
		b.equal("waiting", it.Waiting, false)
		b.equal("last error", it.LastError, "no payment yet")
	}},
	{"WaitingWhoseDeadlineHasCome", func(b *bench) {
		b.enqueue(work("1", "a"))
		c := b.claim(q)
		b.postpone(c.Token, store.Postponed{ID: "1", Waiting: true})
		b.release(c.Token)
		b.equal("waiting", b.claim(q).Items[0].Waiting, true)
	}},
	{"Attempts", func(b *bench) {
		b.enqueue(work("1", "a"), work("2", "a"))
		c := b.claim(q)
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.CountAttempt(ctx, q, c.Token, []string{"1"}) })
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.CountAttempt(ctx, q, c.Token, []string{"1", "2"})
		})
		b.postpone(c.Token, store.Postponed{ID: "1", Error: "e1"}, store.Postponed{ID: "2"})
		b.release(c.Token)
		c = b.claim(q)
		b.equal("attempts", []int{c.Items[0].Attempts, c.Items[1].Attempts}, []int{2, 1})
		b.equal("error", c.Items[0].LastError, "e1")
		zero := 0
		b.postpone(c.Token, store.Postponed{ID: "1", Attempts: &zero})
		b.release(c.Token)
		b.equal("reset", b.claim(q).Items[0].Attempts, 0)
	}},
	{"CountAttemptKeepsTheItem", func(b *bench) {
		b.enqueue(work("1", "a"))
		c := b.claim(q)
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.CountAttempt(ctx, q, c.Token, []string{"1"}) })
		b.complete(c.Token, "1")
	}},
	{"SuspectAfterACrash", suspect},
	{"TokenFences", tokenFences},
	{"LapsedButNotTaken", func(b *bench) {
		// A lease that lapsed is only lost to somebody who took it.
		b.enqueue(work("1", "a"))
		c := b.crashed(q)
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Extend(ctx, q, c.Token, time.Hour) })
		b.equal("held again", len(b.claim(q).Items), 0)
		b.complete(c.Token, "1")
		b.release(c.Token)
	}},
	{"CompletedAndEnqueuedAgain", func(b *bench) {
		b.enqueue(work("1", "a"))
		c := b.claim(q)
		b.complete(c.Token, "1")
		b.enqueue(work("1", "a"))
		b.release(c.Token)
		c = b.claim(q)
		b.equal("items", itemIDs(c), []string{"1"})
		b.equal("suspect", c.Items[0].Suspect, false)
	}},
	{"EnqueueWhileHeld", func(b *bench) {
		b.enqueue(work("1", "a"))
		c := b.claim(q)
		b.enqueue(work("2", "a"))
		b.equal("the lane is held", len(b.claim(q).Items), 0)
		b.complete(c.Token, "1")
		b.release(c.Token)
		b.equal("after the release", itemIDs(b.claim(q)), []string{"2"})
	}},
	{"Stats", func(b *bench) {
		b.enqueue(work("1", "a"), work("2", "a"), store.Work{Queue: "other", ID: "3", Lane: "a"})
		c := b.claim("other")
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.Postpone(ctx, "other", c.Token, []store.Postponed{{ID: "3", Delay: time.Hour, Waiting: true}})
		})
		stats, err := b.s.Stats(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		seen := map[string][2]int{}
		for _, qs := range stats.Queues {
			seen[qs.Queue] = [2]int{qs.Pending, qs.Waiting}
			if qs.Pending > 0 && qs.Oldest.IsZero() {
				b.Errorf("%s has no oldest instant", qs.Queue)
			}
		}
		b.equal("queues", seen, map[string][2]int{q: {2, 0}, "other": {0, 1}})
	}},
	{"StatsCountWhatIsPostponed", func(b *bench) {
		// What fails and is tried again is still to be done, and grows old.
		b.enqueue(work("1", "a"))
		c := b.claim(q)
		b.postpone(c.Token, store.Postponed{ID: "1", Delay: time.Hour})
		b.release(c.Token)
		stats, err := b.s.Stats(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if len(stats.Queues) != 1 || stats.Queues[0].Pending != 1 || stats.Queues[0].Oldest.IsZero() {
			b.Errorf("queues %+v", stats.Queues)
		}
	}},
}

// suspect: whoever holds an item when its lease lapses leaves it suspect, and it
// stays so until somebody got through with it.
func suspect(b *bench) {
	b.enqueue(work("1", "a"))
	crashed := b.crashed(q)
	b.equal("first", crashed.Items[0].Suspect, false)
	second := b.claim(q)
	b.equal("after the crash", second.Items[0].Suspect, true)
	b.release(second.Token)
	third := b.claim(q)
	b.equal("handed back without a try", third.Items[0].Suspect, true)
	b.postpone(third.Token, store.Postponed{ID: "1"})
	b.release(third.Token)
	fourth := b.claim(q)
	b.equal("after it was tried", fourth.Items[0].Suspect, false)
	b.release(fourth.Token)
	b.equal("released unharmed", b.claim(q).Items[0].Suspect, false)
}

func tokenFences(b *bench) {
	b.enqueue(work("1", "a"), work("2", "b"))
	old := b.crashed(q)
	taken := b.claim(q)
	for name, fn := range map[string]func(context.Context, store.Tx) error{
		"Complete":     func(ctx context.Context, tx store.Tx) error { return tx.Complete(ctx, q, old.Token, []string{"1"}) },
		"CountAttempt": func(ctx context.Context, tx store.Tx) error { return tx.CountAttempt(ctx, q, old.Token, []string{"1"}) },
		"Postpone": func(ctx context.Context, tx store.Tx) error {
			return tx.Postpone(ctx, q, old.Token, []store.Postponed{{ID: "1"}})
		},
		"Extend": func(ctx context.Context, tx store.Tx) error { return tx.Extend(ctx, q, old.Token, time.Hour) },
		"Complete none": func(ctx context.Context, tx store.Tx) error {
			return tx.Complete(ctx, q, taken.Token, []string{"none"})
		},
		"Complete in another queue": func(ctx context.Context, tx store.Tx) error {
			return tx.Complete(ctx, "other", taken.Token, []string{"1"})
		},
		"Complete one lost": func(ctx context.Context, tx store.Tx) error {
			return tx.Complete(ctx, q, taken.Token, []string{"1", "none"})
		},
	} {
		b.Run(name, func(t *testing.T) { (&bench{T: t, s: b.s}).fails(store.ErrLeaseLost, fn) })
	}
	b.release(old.Token)
	b.equal("a stale release frees nothing", len(b.claim(q).Items), 0)
	b.complete(taken.Token, "1", "2")
}

var laneProofs = []proof{
	{"OldestFirst", func(b *bench) {
		var want []string
		for i := range 30 {
			id := fmt.Sprintf("%02d", (i*7)%30)
			want = append(want, id)
		}
		for _, id := range want[:10] {
			b.enqueue(work(id, "a"))
		}
		var rest []store.Work
		for _, id := range want[10:] {
			rest = append(rest, work(id, "a"))
		}
		b.enqueue(rest...)
		b.equal("order", itemIDs(b.claim(q)), want)
	}},
	{"BoundsOfAClaim", func(b *bench) {
		for _, lane := range []string{"a", "b", "c"} {
			b.enqueue(work(lane+"1", lane), work(lane+"2", lane), work(lane+"3", lane))
		}
		c := b.claimWith(store.ClaimRequest{Queue: q, Lanes: 2, PerLane: 2, Lease: time.Hour})
		b.equal("items", len(c.Items), 4)
		rest := b.claim(q)
		b.equal("the third lane", len(rest.Items), 3)
		b.release(c.Token)
		b.equal("after the release", len(b.claim(q).Items), 6)
	}},
	{"LongestDueFirst", func(b *bench) {
		b.enqueue(work("1", "z"))
		b.enqueue(work("2", "a"))
		b.equal("lane", b.claimWith(store.ClaimRequest{Queue: q, Lanes: 1, PerLane: 1, Lease: time.Hour}).Items[0].Lane, "z")
	}},
	{"NoLaneIsHeldTwice", func(b *bench) {
		// R2.7: one lane, one worker.
		b.enqueue(work("1", "a"), work("2", "a"))
		first := b.claimWith(store.ClaimRequest{Queue: q, Lanes: 1, PerLane: 1, Lease: time.Hour})
		b.equal("first", itemIDs(first), []string{"1"})
		b.equal("second", len(b.claim(q).Items), 0)
		b.release(first.Token)
		b.equal("after the release", itemIDs(b.claim(q)), []string{"1", "2"})
	}},
	{"QueuesAreApart", func(b *bench) {
		b.enqueue(work("1", "a"), store.Work{Queue: "other", ID: "1", Lane: "a"})
		b.equal("one", itemIDs(b.claim(q)), []string{"1"})
		b.equal("other", itemIDs(b.claim("other")), []string{"1"})
	}},
	{"ExtendKeepsTheLane", func(b *bench) {
		b.enqueue(work("1", "a"))
		c := b.claim(q)
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Extend(ctx, q, c.Token, 0) })
		b.equal("a lease of nothing lapses", itemIDs(b.claim(q)), []string{"1"})
	}},
	{"ReleaseLooksAtTheNextItem", func(b *bench) {
		b.enqueue(work("1", "a"), later("2", "a"), work("3", "b"))
		c := b.claim(q)
		b.complete(c.Token, "1", "3")
		b.release(c.Token)
		b.equal("nothing due", len(b.claim(q).Items), 0)
		b.enqueue(work("2", "a"))
		b.equal("the lane lives on", itemIDs(b.claim(q)), []string{"2"})
	}},
	{"StaleLanesDoNotHideOthers", func(b *bench) {
		// Ordered claims meet lanes that look due and are not.
		for _, lane := range []string{"a", "b", "c", "d"} {
			b.enqueue(work(lane+"1", lane))
		}
		c := b.claim(q)
		for _, it := range c.Items {
			b.postpone(c.Token, store.Postponed{ID: it.ID, Delay: time.Hour})
		}
		b.release(c.Token)
		b.enqueue(work("a2", "a"), work("b2", "b"), work("c2", "c"), work("d2", "d"))
		b.enqueue(work("e1", "e"))
		got := b.claimWith(store.ClaimRequest{Queue: q, Lanes: 1, PerLane: 5, Lease: time.Hour, Ordered: true})
		for range 10 {
			if len(got.Items) > 0 {
				break
			}
			got = b.claimWith(store.ClaimRequest{Queue: q, Lanes: 1, PerLane: 5, Lease: time.Hour, Ordered: true})
		}
		b.equal("items", itemIDs(got), []string{"e1"})
	}},
	{"OrderedStopsAtWhatIsNotDue", func(b *bench) {
		ordered := store.ClaimRequest{Queue: q, Lanes: 10, PerLane: 10, Lease: time.Hour, Ordered: true}
		b.enqueue(work("1", "a"), work("2", "a"), work("3", "a"))
		c := b.claimWith(ordered)
		b.equal("all", itemIDs(c), []string{"1", "2", "3"})
		b.postpone(c.Token, store.Postponed{ID: "2", Delay: time.Hour})
		b.release(c.Token)
		c = b.claimWith(ordered)
		b.equal("up to the postponed", itemIDs(c), []string{"1"})
		b.complete(c.Token, "1")
		b.release(c.Token)
		b.equal("behind the postponed", len(b.claimWith(ordered).Items), 0)
		b.enqueue(work("4", "a"))
		b.equal("a new one overtakes nothing", len(b.claimWith(ordered).Items), 0)
		b.enqueue(work("2", "a"))
		b.equal("due again", itemIDs(b.claimWith(ordered)), []string{"2", "3", "4"})
	}},
	{"UnorderedPassesWhatIsNotDue", func(b *bench) {
		b.enqueue(later("1", "a"), work("2", "a"))
		b.equal("items", itemIDs(b.claim(q)), []string{"2"})
	}},
}

var waitingProofs = []proof{
	{"WakeMakesDue", func(b *bench) {
		// R2.10: an entry that came before its payment waits and is woken.
		b.insert(entry("evt_1"), entry("evt_2"))
		b.wait("evt_1", "pi_1", "ch_1")
		b.wait("evt_2", "pi_2")
		b.equal("nothing is due", len(b.claim(store.QueueInbox).Items), 0)
		b.equal("state", b.status("evt_1").State, store.EntryWaiting)
		b.equal("woken", b.wake("ch_1", "pi_1"), []string{"evt_1"})
		c := b.claim(store.QueueInbox)
		b.equal("due", itemIDs(c), []string{"evt_1"})
		b.equal("waiting", c.Items[0].Waiting, false)
	}},
	{"NamesAreScoped", func(b *bench) {
		b.insert(entry("evt_1"))
		b.wait("evt_1", "pi_1")
		for _, s := range []store.Scope{{Account: "acc", Mode: "test"}, {Account: "b", Mode: "live"}, {Account: "acc", Mode: "live", Connected: "c"}} {
			var woken []string
			b.tx(func(ctx context.Context, tx store.Tx) (err error) {
				woken, err = tx.WakeWaiting(ctx, []store.ScopedName{{Scope: s, Value: "pi_1"}})
				return err
			})
			b.equal("woken", len(woken), 0)
		}
		b.equal("own scope", b.wake("pi_1"), []string{"evt_1"})
	}},
	{"IsFoundByTheNameInAnyScope", func(b *bench) {
		other := entry("evt_2")
		other.Scope.Mode = "test"
		b.insert(entry("evt_1"), other, entry("evt_3"))
		b.wait("evt_1", "pi_1", "ch_1")
		b.wait("evt_3", "pi_1")
		b.tx(func(ctx context.Context, tx store.Tx) error {
			n := store.ScopedName{Scope: other.Scope, Value: "pi_1"}
			if _, err := tx.Bind(ctx, []store.Binding{{ScopedName: n}}); err != nil {
				return err
			}
			return tx.Wait(ctx, []store.Waiting{{EntryID: "evt_2", Name: n}})
		})
		under := func(account, value string, limit int) []string {
			return read(b, func(ctx context.Context, r store.Reader) ([]string, error) {
				return r.WaitingUnder(ctx, account, value, limit)
			})
		}
		b.equal("in both modes, newest first", under("acc", "pi_1", 10), []string{"evt_3", "evt_2", "evt_1"})
		b.equal("bounded", under("acc", "pi_1", 1), []string{"evt_3"})
		b.equal("by another name", under("acc", "ch_1", 10), []string{"evt_1"})
		b.equal("another account", len(under("other", "pi_1", 10)), 0)
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Unwait(ctx, []string{"evt_1"}) })
		b.equal("after unwait", len(under("acc", "ch_1", 10)), 0)
	}},
	{"StaysFiledUntilUnwait", func(b *bench) {
		b.insert(entry("evt_1"))
		b.wait("evt_1", "pi_1", "pi_1", "ch_1")
		b.equal("woken", b.wake("pi_1"), []string{"evt_1"})
		b.equal("woken under the other", b.wake("ch_1"), []string{"evt_1"})
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Unwait(ctx, []string{"evt_1", "evt_none"}) })
		b.equal("after unwait", len(b.wake("pi_1", "ch_1")), 0)
	}},
	{"FinishedEntriesAreNotWoken", func(b *bench) {
		b.insert(entry("evt_1"))
		b.wait("evt_1", "pi_1")
		b.wake("pi_1")
		c := b.claim(store.QueueInbox)
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.Complete(ctx, store.QueueInbox, c.Token, []string{"evt_1"})
		})
		b.equal("woken", len(b.wake("pi_1")), 0)
	}},
	{"WakeSignals", func(b *bench) {
		b.insert(entry("evt_1"))
		b.wait("evt_1", "pi_1")
		news := b.s.Wake(store.QueueInbox)
		select {
		case <-news:
		default:
		}
		b.wake("pi_1")
		awaitWake(b.T, news)
	}},
	{"WokenWhileHeld", func(b *bench) {
		b.insert(entry("evt_1"))
		b.enqueue(store.Work{Queue: store.QueueInbox, ID: "evt_1", Lane: "l"})
		c := b.claim(store.QueueInbox)
		b.tx(func(ctx context.Context, tx store.Tx) error {
			if _, err := tx.Bind(ctx, []store.Binding{{ScopedName: named("pi_1")}}); err != nil {
				return err
			}
			if err := tx.Wait(ctx, []store.Waiting{{EntryID: "evt_1", Name: named("pi_1")}}); err != nil {
				return err
			}
			return tx.Postpone(ctx, store.QueueInbox, c.Token, []store.Postponed{{ID: "evt_1", Delay: time.Hour, Waiting: true}})
		})
		b.equal("woken before the release", b.wake("pi_1"), []string{"evt_1"})
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Release(ctx, store.QueueInbox, c.Token) })
		b.equal("due", itemIDs(b.claim(store.QueueInbox)), []string{"evt_1"})
	}},
}

// wait stores an entry as waiting under names, as apply does.
func (b *bench) wait(id string, names ...string) {
	b.Helper()
	b.enqueue(store.Work{Queue: store.QueueInbox, ID: id, Lane: id})
	c := b.claim(store.QueueInbox)
	b.tx(func(ctx context.Context, tx store.Tx) error {
		var bindings []store.Binding
		var waits []store.Waiting
		for _, n := range names {
			bindings = append(bindings, store.Binding{ScopedName: named(n)})
			waits = append(waits, store.Waiting{EntryID: id, Name: named(n)})
		}
		if _, err := tx.Bind(ctx, bindings); err != nil {
			return err
		}
		if err := tx.Wait(ctx, waits); err != nil {
			return err
		}
		err := tx.Postpone(ctx, store.QueueInbox, c.Token, []store.Postponed{{ID: id, Delay: time.Hour, Waiting: true}})
		if err != nil {
			return err
		}
		return tx.Release(ctx, store.QueueInbox, c.Token)
	})
}

func (b *bench) wake(names ...string) []string {
	b.Helper()
	var woken []string
	b.tx(func(ctx context.Context, tx store.Tx) (err error) {
		var all []store.ScopedName
		for _, n := range names {
			all = append(all, named(n))
		}
		woken, err = tx.WakeWaiting(ctx, all)
		return err
	})
	return sorted(woken)
}
