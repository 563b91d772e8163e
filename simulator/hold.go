package simulator

import (
	"context"
	"sync"
	"time"
)

// holds keeps requests waiting: until their time is over, their caller is gone,
// or Release.
type holds struct {
	mu      sync.Mutex
	release chan struct{} // closed by Release, then replaced
	changed chan struct{} // closed whenever held changes, then replaced
	held    int
}

func newHolds() *holds {
	return &holds{release: make(chan struct{}), changed: make(chan struct{})}
}

// wait blocks for d, or without limit if d is zero.
func (h *holds) wait(ctx context.Context, d time.Duration) {
	release := h.enter(1)
	defer h.enter(-1)
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
	case <-release:
	case <-over:
	}
}

func (h *holds) enter(n int) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held += n
	close(h.changed)
	h.changed = make(chan struct{})
	return h.release
}

func (h *holds) now() (int, chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held, h.changed
}

func (h *holds) letGo() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.release)
	h.release = make(chan struct{})
	return h.held
}

// Release lets every request go on that a fault holds now; it says how many.
func (s *Server) Release() int { return s.holds.letGo() }

// WaitHeld waits until at least n requests are held by a fault.
func (s *Server) WaitHeld(ctx context.Context, n int) error {
	for {
		held, changed := s.holds.now()
		if held >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
