package simulator

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"strconv"
	"sync"
	"time"
)

// The kinds of fault on the API side. "Executed" means that the books show it.
const (
	FaultDropAnswer   = "drop_answer"  // executed and stored, then the connection ends without a byte
	FaultErrorBefore  = "error_before" // 500, not executed, not stored
	FaultErrorAfter   = "error_after"  // executed; the 500 is stored and replayed
	FaultHang         = "hang"         // not executed; no answer until the caller leaves or DelayMS
	FaultHangAfter    = "hang_after"   // executed and stored; no answer
	FaultLate         = "late"         // held for DelayMS or until release, then executed though the caller may be gone
	FaultDelay        = "delay"        // executed, answered after DelayMS
	FaultReset        = "reset"        // executed; half of the answer, then a reset
	FaultSlow         = "slow"         // executed; a byte per second, or per DelayMS
	FaultTruncated    = "truncated"    // executed; half of the JSON in a well-formed answer
	FaultKeyInUse     = "key_in_use"   // 409, not executed
	FaultRateLimited  = "rate_limited" // 429 with Retry-After, not executed
	FaultLockTimeout  = "lock_timeout" // 429 lock_timeout, not executed
	FaultUnauthorized = "unauthorized" // 401, not executed
	FaultStored400    = "stored_400"   // not executed; stored and replayed
	FaultStored500    = "stored_500"   // not executed; stored and replayed
	FaultAlreadyDone  = "already_done" // executed; the answer says it had been done before
	FaultWrongAmount  = "wrong_amount" // executed; the answer's amounts are one too high
)

// The kinds of fault on the webhook side. Only the first two change what is
// listed at /v1/events.
const (
	FaultSecondEvent = "webhook_second_event" // one fact, two events with different ids
	FaultLoss        = "webhook_loss"         // listed as undelivered, never sent
	FaultDuplicate   = "webhook_duplicate"    // up to Copies more deliveries of the same event
	FaultDisorder    = "webhook_disorder"     // Window deliveries leave in shuffled order, or those there are after DelayMS
	FaultWait        = "webhook_delay"        // leaves up to DelayMS later
	FaultLostAnswer  = "webhook_drop_answer"  // delivered, the 2xx is taken for lost, delivered again
)

var apiKinds = set(`drop_answer error_before error_after hang hang_after late delay reset slow truncated
	key_in_use rate_limited lock_timeout unauthorized stored_400 stored_500 already_done wrong_amount`)

var webhookKinds = set(`webhook_second_event webhook_loss webhook_duplicate webhook_disorder webhook_delay webhook_drop_answer`)

// Fault is an instruction to fail. Of several API faults that match a request
// the first in order of instruction strikes; webhook faults of different kinds
// add up.
type Fault struct {
	Kind        string  `json:"kind"`
	Method      string  `json:"method,omitempty"`      // API: POST, GET; empty: any
	Path        string  `json:"path,omitempty"`        // API: a pattern such as /v1/payment_intents/*/capture; empty: any
	EventType   string  `json:"event_type,omitempty"`  // webhooks: a pattern such as charge.*; empty: any
	Times       int     `json:"times,omitempty"`       // strikes at most so often; 0: a standing instruction
	Skip        int     `json:"skip,omitempty"`        // lets so many matches pass first
	Probability float64 `json:"probability,omitempty"` // 0 to 1; 0 means always
	DelayMS     int     `json:"delay_ms,omitempty"`
	RetryAfter  int     `json:"retry_after,omitempty"` // seconds, for rate_limited
	Copies      int     `json:"copies,omitempty"`      // most copies of a duplicate, 1 if 0
	Window      int     `json:"window,omitempty"`      // deliveries shuffled together, 8 if 0
	// ShouldRetry, if set, is sent as Stripe-Should-Retry.
	ShouldRetry *bool `json:"should_retry,omitempty"`
}

// FaultStatus is an instruction and what became of it.
type FaultStatus struct {
	ID string `json:"id"`
	Fault
	Seen int `json:"seen"` // matches
	Hits int `json:"hits"` // strikes
}

func (f *Fault) is(kind string) bool { return f != nil && f.Kind == kind }

func (f *Fault) delay(fallback time.Duration) time.Duration {
	return or(time.Duration(f.DelayMS)*time.Millisecond, fallback)
}

func (f *Fault) hint(w http.ResponseWriter) {
	if f.ShouldRetry != nil {
		w.Header().Set("Stripe-Should-Retry", strconv.FormatBool(*f.ShouldRetry))
	}
}

func (f *Fault) check() error {
	switch {
	case !apiKinds[f.Kind] && !webhookKinds[f.Kind]:
		return fmt.Errorf("fault of kind %q: %w", f.Kind, ErrInvalid)
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("fault %s with probability %v: %w", f.Kind, f.Probability, ErrInvalid)
	case f.Times < 0, f.Skip < 0, f.DelayMS < 0, f.RetryAfter < 0, f.Window < 0, f.Copies < 0, f.Copies > copiesMax:
		return fmt.Errorf("fault %s with a number out of range: %w", f.Kind, ErrInvalid)
	}
	for _, pattern := range []string{f.Path, f.EventType} {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("fault %s with pattern %q: %w", f.Kind, pattern, ErrInvalid)
		}
	}
	return nil
}

// glob matches a pattern; * stands for anything but a slash. Nothing matches all.
func glob(pattern, s string) bool {
	if pattern == "" || pattern == "*" {
		return true
	}
	ok, err := path.Match(pattern, s)
	return ok && err == nil
}

// instruction is a fault with its own stream of chance, so that one does not
// shift another.
type instruction struct {
	FaultStatus
	chance *rand.Rand
}

type faults struct {
	mu    sync.Mutex
	seed  uint64
	count uint64
	list  []*instruction
	draws *rand.Rand
}

func newFaults(seed uint64) *faults {
	return &faults{seed: seed, draws: newRand(seed, streamFaults)}
}

// strike decides whether the instruction, which matches, takes effect.
func (i *instruction) strike() bool {
	i.Seen++
	switch {
	case i.Times > 0 && i.Hits >= i.Times, i.Seen <= i.Skip:
		return false
	case i.Probability > 0 && i.chance.Float64() >= i.Probability:
		return false
	}
	i.Hits++
	return true
}

// api picks the fault of a request. The request's own header goes first.
func (f *faults) api(r *http.Request) *Fault {
	if kind := r.Header.Get("Simulator-Fault"); apiKinds[kind] {
		return &Fault{Kind: kind}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.list {
		if !apiKinds[i.Kind] || i.Method != "" && i.Method != r.Method || !glob(i.Path, r.URL.Path) {
			continue
		}
		if i.Kind == FaultAlreadyDone && !canBeDone(r) {
			continue
		}
		if i.strike() {
			chosen := i.Fault
			return &chosen
		}
	}
	return nil
}

// canBeDone: only what acts on something that exists can have been done before.
func canBeDone(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path != "/v1/payment_intents"
}

// webhook says whether a fault of the kind strikes an event of the type.
func (f *faults) webhook(kind, typ string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.list {
		if i.Kind == kind && glob(i.EventType, typ) && i.strike() {
			chosen := i.Fault
			return &chosen
		}
	}
	return nil
}

// plan is what faults do to the deliveries of one event.
type plan struct {
	lost   bool
	copies int
	delay  time.Duration
	window int
	hold   time.Duration // how long the window waits to fill
}

func (f *faults) plan(typ string) plan {
	var p plan
	if f.webhook(FaultLoss, typ) != nil {
		return plan{lost: true}
	}
	if d := f.webhook(FaultDuplicate, typ); d != nil {
		p.copies = 1 + f.draw(or(d.Copies, 1))
	}
	if d := f.webhook(FaultWait, typ); d != nil {
		p.delay = time.Duration(1 + f.draw(int(d.delay(webhookDelay))))
	}
	if d := f.webhook(FaultDisorder, typ); d != nil {
		p.window, p.hold = or(d.Window, windowDefault), d.delay(windowTime)
	}
	return p
}

func (f *faults) draw(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draws.IntN(n)
}

// Inject adds an instruction and answers its id. It is refused with ErrInvalid
// or, beyond the bound, ErrFull.
func (s *Server) Inject(fault Fault) (string, error) {
	if err := fault.check(); err != nil {
		return "", err
	}
	f := s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) >= faultsMax {
		return "", fmt.Errorf("fault %s: %w", fault.Kind, ErrFull)
	}
	f.count++
	i := &instruction{
		FaultStatus: FaultStatus{ID: "flt_" + strconv.FormatUint(f.count, 10), Fault: fault},
		chance:      newRand(f.seed, streamFaults<<32+f.count),
	}
	f.list = append(f.list, i)
	return i.ID, nil
}

// Faults lists the instructions in their order.
func (s *Server) Faults() []FaultStatus {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	out := make([]FaultStatus, 0, len(s.faults.list))
	for _, i := range s.faults.list {
		out = append(out, i.FaultStatus)
	}
	return out
}

// ClearFaults forgets one instruction, or all if the id is empty. Deliveries
// that a fault has already delayed or held in a window stay as they are. An
// unknown id is ErrNotFound.
func (s *Server) ClearFaults(id string) error {
	f := s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if id == "" {
		f.list = nil
		return nil
	}
	for n, i := range f.list {
		if i.ID == id {
			f.list = append(f.list[:n], f.list[n+1:]...)
			return nil
		}
	}
	return fmt.Errorf("fault %s: %w", id, ErrNotFound)
}
