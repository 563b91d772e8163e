package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/internal/backoff"
)

const (
	// channel is what sessions of the ledger LISTEN to; the payload is a queue.
	channel = "unavez_work"
	// notifyPause is the shortest time between two notifications of a process.
	notifyPause = 10 * time.Millisecond
	// notifyTimeout bounds one notification; a lost one is made good by polling.
	notifyTimeout = 5 * time.Second
)

// listenPolicy spaces the tries of the listener to reach the server.
var listenPolicy = backoff.Policy{Base: 100 * time.Millisecond, Cap: 5 * time.Second}

// waker hints at new work, inside the process and between processes. The
// notification is not part of the transaction that left the work: NOTIFY takes
// a lock of the whole server from before the commit's flush until after it, so
// commits would go one after the other. It is sent right after the commit, and
// what a busy process commits meanwhile shares the next one.
type waker struct {
	store  *Store
	config *pgx.ConnConfig
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	poke   chan struct{}

	mu        sync.Mutex
	channels  map[string]chan struct{}
	pending   map[string]bool
	listening bool
	closed    bool
}

func newWaker(s *Store, config *pgx.ConnConfig) *waker {
	w := &waker{
		store: s, config: config.Copy(), poke: make(chan struct{}, 1),
		channels: map[string]chan struct{}{}, pending: map[string]bool{},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *waker) start() { w.wg.Go(w.notify) }

func (w *waker) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
}

// Wake implements store.Store. All callers for one queue share a channel. The
// first call starts the listener.
func (s *Store) Wake(queue string) <-chan struct{} {
	w := s.waker
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.channels[queue] == nil {
		w.channels[queue] = make(chan struct{}, 1)
	}
	if !w.listening && !w.closed {
		w.listening = true
		w.wg.Go(w.listen)
	}
	return w.channels[queue]
}

// announce tells of work that a commit has left in the queues.
func (w *waker) announce(queues map[string]bool) {
	if len(queues) == 0 {
		return
	}
	w.mu.Lock()
	for queue := range queues {
		w.pending[queue] = true
		hint(w.channels[queue])
	}
	w.mu.Unlock()
	hint(w.poke)
}

func (w *waker) signal(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hint(w.channels[queue])
}

func (w *waker) signalAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ch := range w.channels {
		hint(ch)
	}
}

// hint never blocks; on a nil channel it does nothing.
func hint(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// notify sends what is pending, until close.
func (w *waker) notify() {
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.poke:
		}
		w.mu.Lock()
		queues := w.pending
		w.pending = map[string]bool{}
		w.mu.Unlock()
		if err := w.send(queues); err != nil && w.ctx.Err() == nil {
			w.store.epoch.Add(1) // the connection may have died idle
			w.store.opt.Logger.Debug("workers of other processes are not woken and will poll", "error", err)
		}
		if pause(w.ctx, notifyPause) != nil {
			return
		}
	}
}

func (w *waker) send(queues map[string]bool) error {
	ctx, cancel := context.WithTimeout(w.ctx, notifyTimeout)
	defer cancel()
	b := &pgx.Batch{}
	for queue := range queues {
		b.Queue(`SELECT pg_notify($1, $2)`, channel, queue)
	}
	// A hint need not be durable, and the claims' sessions do not wait for that.
	return w.store.claims.SendBatch(ctx, b).Close()
}

// listen keeps one connection that hears of other processes' commits.
func (w *waker) listen() {
	for failures := 0; ; {
		heard, err := w.hear(failures > 0)
		if w.ctx.Err() != nil {
			return
		}
		w.store.epoch.Add(1)
		if heard {
			failures = 0
		}
		failures++ // from here on something may have been missed
		w.store.opt.Logger.Debug("the listener connects anew", "error", err)
		if pause(w.ctx, listenPolicy.Delay(failures, nil)) != nil {
			return
		}
	}
}

// hear listens until the connection fails. True says that it came to listen.
// If something was missed before, everybody is woken once.
func (w *waker) hear(missed bool) (bool, error) {
	conn, err := pgx.ConnectConfig(w.ctx, w.config)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		_ = conn.Close(ctx) // closed is closed, however
	}()
	if _, err := conn.Exec(w.ctx, "listen "+channel); err != nil {
		return false, err
	}
	if missed {
		w.signalAll()
	}
	for {
		notification, err := conn.WaitForNotification(w.ctx)
		if err != nil {
			return true, err
		}
		w.signal(notification.Payload)
	}
}
