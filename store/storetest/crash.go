package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/unavez/unavez/store"
)

// OpenDatabase opens a store on a database that another process may have
// written to. The schema is current.
type OpenDatabase func(ctx context.Context, database string) (store.Store, error)

// The environment by which a test binary knows that it is the child.
const (
	crashDatabase = "UNAVEZ_STORETEST_CRASH"
	crashRound    = "UNAVEZ_STORETEST_ROUND"
)

const (
	crashRounds  = 6
	crashWriters = 3
	// crashAcksMax bounds the commits that a child reports before it is killed.
	crashAcksMax = 60
	// crashAhead is how far behind the last report an unreported commit may be:
	// one was done and not yet reported, one was under way.
	crashAhead = 2
)

// CrashMain is called first in the TestMain of a package that calls RunCrash.
// In the child process it writes until it is killed, and does not return.
func CrashMain(open OpenDatabase) {
	database := os.Getenv(crashDatabase)
	if database == "" {
		return
	}
	if err := crashChild(context.Background(), open, database, os.Getenv(crashRound)); err != nil {
		fmt.Fprintln(os.Stderr, "crash child:", err)
	}
	os.Exit(1)
}

// crashChild commits in a loop and reports each commit after it has returned.
func crashChild(ctx context.Context, open OpenDatabase, database, round string) error {
	s, err := open(ctx, database)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var writers sync.WaitGroup
	errs := make([]error, crashWriters)
	for w := range crashWriters {
		writers.Go(func() {
			for i := 1; ; i++ {
				if errs[w] = s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return crashWrite(ctx, tx, crashUnit(round, w, i)) }); errs[w] != nil {
					return
				}
				mu.Lock()
				fmt.Println(w, i)
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	return errors.Join(errs...)
}

func crashUnit(round string, writer, i int) string { return fmt.Sprintf("%s.%d.%d", round, writer, i) }

// crashWrite writes one unit: rows in many tables that belong together.
func crashWrite(ctx context.Context, tx store.Tx, unit string) error {
	first, second := entry("evt_"+unit+"a"), entry("evt_"+unit+"b")
	first.Bytes = []byte(strings.Repeat(unit+"\x00", 300))
	if _, err := tx.InsertEntries(ctx, []store.EntryWithBody{first, second}); err != nil {
		return err
	}
	if err := tx.Enqueue(ctx, []store.Work{{Queue: q, ID: unit, Lane: "hot"}}); err != nil {
		return err
	}
	if _, err := tx.Bind(ctx, []store.Binding{{ScopedName: named(unit), Payment: "pay_" + unit}}); err != nil {
		return err
	}
	if err := tx.AppendAudit(ctx, []store.AuditRow{{ID: "aud_" + unit, Subject: "one for all", At: base}}); err != nil {
		return err
	}
	m := message("msg_" + unit)
	m.Payment, m.Lane = "pay_"+unit, "pay_"+unit
	return tx.Save(ctx, store.Changes{
		Facts: []store.Fact{fact("pay_"+unit, "ch_"+unit)}, Messages: []store.Message{m},
		Effects: []store.Effect{{Subject: "pay_" + unit, Key: "k", At: base}},
	})
}

// RunCrash kills a process that writes to the database, again and again, and
// looks at what is left: R1.7, everything that was reported is there, and
// nothing is there by halves.
func RunCrash(t *testing.T, database string, open OpenDatabase) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	units := 0
	for round := range crashRounds {
		name := fmt.Sprint("r", round)
		reported := crashRun(t, database, name, 1+random.IntN(crashAcksMax))
		func() {
			s, err := open(t.Context(), database)
			if err != nil {
				t.Fatalf("opening after the crash: %v", err)
			}
			defer s.Close()
			units += lookAfter(t, s, name, reported)
			lookAtChain(t, s, units)
		}()
	}
}

// crashRun starts the child, kills it after that many reports, and returns the
// last commit that each writer has reported.
func crashRun(t *testing.T, database, round string, acks int) (reported [crashWriters]int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env = append(os.Environ(), crashDatabase+"="+database, crashRound+"="+round)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); {
		var w, i int
		if _, err := fmt.Sscan(lines.Text(), &w, &i); err != nil {
			t.Errorf("the child said %q", lines.Text())
			continue
		}
		reported[w] = i
		if n++; n == acks {
			// What the pipe still holds was committed as well and is read on.
			if err := cmd.Process.Kill(); err != nil {
				t.Errorf("killing: %v", err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the child was not killed but ended: %v\n%s", err, complaint.String())
	}
	return reported
}

// lookAfter counts the units that are there.
func lookAfter(t *testing.T, s store.Store, round string, reported [crashWriters]int) (units int) {
	t.Helper()
	for w, last := range reported {
		for i := 1; i <= last+crashAhead; i++ {
			unit := crashUnit(round, w, i)
			there, missing := crashParts(t, s, unit)
			switch {
			case len(missing) == 0:
				units++
			case i <= last:
				t.Errorf("%s was reported, and these are missing: %v", unit, missing)
			case len(there) > 0:
				t.Errorf("%s is half there: %v, without %v", unit, there, missing)
			}
		}
	}
	return units
}

// crashParts says which rows of a unit are there.
func crashParts(t *testing.T, s store.Store, unit string) (there, missing []string) {
	t.Helper()
	note := func(part string, ok bool) {
		if ok {
			there = append(there, part)
		} else {
			missing = append(missing, part)
		}
	}
	ctx := t.Context()
	err := s.View(ctx, func(r store.Reader) error {
		for _, id := range []string{"evt_" + unit + "a", "evt_" + unit + "b"} {
			_, err := r.Entry(ctx, id)
			_, bodyErr := r.Body(ctx, id)
			note(id, err == nil)
			note("body of "+id, bodyErr == nil)
		}
		facts, err1 := r.Facts(ctx, []string{"pay_" + unit})
		note("fact", len(facts) == 1)
		effects, err2 := r.Effects(ctx, []string{"pay_" + unit})
		note("effect", len(effects) == 1)
		owners, err3 := r.Owners(ctx, []store.ScopedName{named(unit)})
		note("name", len(owners) == 1)
		m, err := r.Message(ctx, "msg_"+unit)
		note("message", err == nil)
		note("work of the message", err == nil && !m.NextAt.IsZero())
		audit, err4 := r.Audit(ctx, store.List{Where: map[string]string{"subject": "one for all"}, After: "aud_" + unit + "\x01", Limit: 1})
		note("audit", len(audit) == 1 && audit[0].ID == "aud_"+unit)
		return errors.Join(err1, err2, err3, err4)
	})
	if err != nil {
		t.Fatalf("reading %s: %v", unit, err)
	}
	return there, missing
}

// lookAtChain proves that the chain that all writers share has no gap, and that
// there is an item of work for each of its rows.
func lookAtChain(t *testing.T, s store.Store, units int) {
	t.Helper()
	b := &bench{T: t, s: s}
	chain := read(b, func(ctx context.Context, r store.Reader) ([]store.AuditRow, error) {
		return r.AuditChain(ctx, "one for all")
	})
	head := store.AuditHead{}
	for i := range chain {
		if !chain[i].Intact(head) {
			t.Fatalf("row %d breaks the chain", i)
		}
		head = store.AuditHead{Version: chain[i].Version, Hash: chain[i].Hash}
	}
	if len(chain) != units {
		t.Errorf("%d rows in the chain, %d units", len(chain), units)
	}
	c := b.crashed(q)
	b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Release(ctx, q, c.Token) })
	if len(c.Items) != min(units, 1000) {
		t.Errorf("%d items of work, %d units", len(c.Items), units)
	}
}
