package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/unavez/unavez/store"
)

// Names of the calls of a store that a Rule can meet beside the methods of
// store.Tx and store.Reader, which are called by their own names.
const (
	// CallBegin is a transaction that is about to begin.
	CallBegin = "Begin"
	// CallCommit is a transaction whose function has returned without error.
	CallCommit = "Commit"
	// CallClaim and CallView are the methods of the store.
	CallClaim = "Claim"
	CallView  = "View"
	// CallAny is any call of a transaction's method, but not begin and commit.
	CallAny = "*"
)

// Rule says that one call fails.
type Rule struct {
	// Call is the name of a method, or one of the names above.
	Call string
	// Nth counts the calls of that name from 1; below 1 it means each.
	Nth int
	// After lets the real call be done before the error is returned: a commit
	// is then durable and reported as failed. Otherwise nothing is done, and a
	// commit is a rollback.
	After bool
	// Do runs when the rule is met, before the call or, with After, behind it.
	Do func()
	// Err is returned. Nil lets the call have its own result.
	Err error
}

// Fault is a real store whose calls fail by rules. It is safe for concurrent use.
type Fault struct {
	store.Store

	mu    sync.Mutex
	rules []Rule
	calls map[string]int
	fired int
}

// NewFault wraps a store. The rules are those of Arm.
func NewFault(s store.Store, rules ...Rule) *Fault {
	f := &Fault{Store: s}
	f.Arm(rules...)
	return f
}

// Arm replaces the rules and counts all calls from the beginning.
func (f *Fault) Arm(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.calls, f.fired = rules, map[string]int{}, 0
}

// Fired is the number of times that a rule was met since Arm.
func (f *Fault) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Calls counts the calls by name since Arm, CallAny among them.
func (f *Fault) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// met counts a call and returns the rule for it.
func (f *Fault) met(call string) (Rule, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call]++
	inside := call != CallBegin && call != CallCommit && call != CallClaim && call != CallView
	if inside {
		f.calls[CallAny]++
	}
	for _, r := range f.rules {
		if r.Call != call && (r.Call != CallAny || !inside) {
			continue
		}
		if r.Nth < 1 || r.Nth == f.calls[r.Call] {
			f.fired++
			return r, true
		}
	}
	return Rule{}, false
}

func (r *Rule) do() {
	if r.Do != nil {
		r.Do()
	}
}

// faulty runs a call under the rules.
func faulty[T any](f *Fault, call string, fn func() (T, error)) (T, error) {
	rule, met := f.met(call)
	if !met {
		return fn()
	}
	var zero T
	if !rule.After {
		rule.do()
		if rule.Err != nil {
			return zero, fmt.Errorf("%s: %w", call, rule.Err)
		}
		return fn()
	}
	v, err := fn()
	rule.do()
	if err == nil && rule.Err != nil {
		return zero, fmt.Errorf("%s: %w", call, rule.Err)
	}
	return v, err
}

// check is faulty for a call that returns nothing else.
func (f *Fault) check(call string, fn func() error) error {
	_, err := faulty(f, call, func() (struct{}, error) { return struct{}{}, fn() })
	return err
}

// errUndone rolls the real transaction back without being its result.
var errUndone = errors.New("storetest: the commit is not done")

// InTx implements store.Store.
func (f *Fault) InTx(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	if err := f.check(CallBegin, func() error { return nil }); err != nil {
		return err
	}
	var rule Rule
	var met bool
	err := f.Store.InTx(ctx, opt, func(tx store.Tx) error {
		if err := fn(faultTx{faultReader: faultReader{f: f, r: tx}, tx: tx}); err != nil {
			return err
		}
		// A transaction that the backend tries again has one commit.
		if !met {
			rule, met = f.met(CallCommit)
		}
		if met && !rule.After {
			rule.do()
			if rule.Err != nil {
				return errUndone
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errUndone):
		return fmt.Errorf("%s: %w", CallCommit, rule.Err)
	case err == nil && met && rule.After:
		rule.do()
		if rule.Err != nil {
			return fmt.Errorf("%s: %w", CallCommit, rule.Err)
		}
	}
	return err
}

// View implements store.Store.
func (f *Fault) View(ctx context.Context, fn func(store.Reader) error) error {
	return f.check(CallView, func() error {
		return f.Store.View(ctx, func(r store.Reader) error { return fn(faultReader{f: f, r: r}) })
	})
}

// Claim implements store.Store.
func (f *Fault) Claim(ctx context.Context, req store.ClaimRequest) (store.Claim, error) {
	return faulty(f, CallClaim, func() (store.Claim, error) { return f.Store.Claim(ctx, req) })
}

// Now implements store.Store.
func (f *Fault) Now(ctx context.Context) (time.Time, error) {
	return faulty(f, "Now", func() (time.Time, error) { return f.Store.Now(ctx) })
}

// Stats implements store.Store.
func (f *Fault) Stats(ctx context.Context) (store.Stats, error) {
	return faulty(f, "Stats", func() (store.Stats, error) { return f.Store.Stats(ctx) })
}
