package simulator

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lifecycle owns the goroutines of delivery.
type lifecycle struct {
	mu       sync.Mutex
	running  bool
	stopping chan struct{}      // closed: take nothing more
	cancel   context.CancelFunc // ends attempts under way
	client   *http.Client
	wg       sync.WaitGroup
}

// Start begins to deliver, with a bounded number of workers. Canceling ctx
// ends everything at once, as Stop does with an expired context. A second Start
// without Stop is ErrRunning.
func (s *Server) Start(ctx context.Context) error {
	q := s.queue
	l := &q.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return ErrRunning
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.running, l.stopping = true, make(chan struct{})
	work := make(chan *delivery)
	l.client = s.cfg.client()
	client := l.client
	l.wg.Go(func() { q.dispatch(ctx, l.stopping, work) })
	for range s.cfg.Workers {
		l.wg.Go(func() {
			for d := range work {
				s.deliver(ctx, client, d)
			}
		})
	}
	return nil
}

// Stop takes no new delivery, waits for those under way until ctx ends, then
// cuts them, and returns when every goroutine has ended. What is pending stays
// pending for another Start. Requests held by a fault are let go. Stopping what
// is not running does only that.
func (s *Server) Stop(ctx context.Context) error {
	s.Release()
	l := &s.queue.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		return nil
	}
	close(l.stopping)
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.cancel()
	<-done
	l.running = false
	if s.cfg.Client == nil { // a foreign client's connections are not ours to end
		l.client.CloseIdleConnections()
	}
	return err
}

// dispatch hands what is due to the workers.
func (q *queue) dispatch(ctx context.Context, stopping <-chan struct{}, work chan<- *delivery) {
	defer close(work)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select { // an end goes before more work
		case <-stopping:
			return
		case <-ctx.Done():
			return
		default:
		}
		d, wait := q.take()
		if d != nil {
			select {
			case work <- d:
				continue
			case <-stopping:
			case <-ctx.Done():
			}
			q.putBack(d)
			return
		}
		timer.Reset(wait)
		select {
		case <-q.wake:
		case <-timer.C:
		case <-stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// deliver makes one attempt.
func (s *Server) deliver(ctx context.Context, client *http.Client, d *delivery) {
	ep, ok := s.queue.begin(d)
	if !ok {
		s.queue.drop(d)
		return
	}
	status, err := s.attempt(ctx, client, ep, d.event)
	acknowledged := err == nil && status >= 200 && status < 300
	dropped := acknowledged && s.faults.webhook(FaultLostAnswer, d.event.typ) != nil
	s.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "webhook attempted",
		slog.String("event", d.event.id), slog.String("type", d.event.typ), slog.Int("attempt", d.attempt),
		slog.Int("status", status), slog.Bool("answer_dropped", dropped), slog.Bool("reached", err == nil))
	s.queue.end(d, acknowledged, dropped)
}

// attempt posts the event's bytes under a fresh signature. Status 0 with an
// error means that there was no complete answer.
func (s *Server) attempt(ctx context.Context, client *http.Client, ep Endpoint, ev *event) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DeliveryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ep.URL, bytes.NewReader(ev.payload))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)")
	req.Header.Set("Stripe-Signature", Sign(s.cfg.Now(), ev.payload, ep.secrets()...))
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	// Only the status counts; the body is read so that the connection lives on.
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, answerBytesMax))
	return res.StatusCode, nil
}

func (e Endpoint) secrets() []string {
	if len(e.Secrets) == 0 {
		return []string{defaultWebhookSecret}
	}
	return e.Secrets
}

// Sign makes a Stripe-Signature header over the body: the time in seconds and
// one v1 per secret. The whole text of a secret is the key.
func Sign(at time.Time, body []byte, secrets ...string) string {
	t := strconv.FormatInt(at.Unix(), 10)
	var b strings.Builder
	b.WriteString("t=" + t)
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(t + "."))
		mac.Write(body)
		b.WriteString(",v1=" + hex.EncodeToString(mac.Sum(nil)))
	}
	return b.String()
}
