package campaign

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

// sender stands where the provider stands. It remembers what was acknowledged.
type sender struct {
	client *http.Client

	mu     sync.Mutex
	acked  map[string]int
	status map[int]int
	broken int
}

func newSender(client *http.Client) *sender {
	return &sender{client: client, acked: map[string]int{}, status: map[int]int{}}
}

// send makes one delivery and returns the status, 0 without an answer.
func (s *sender) send(ctx context.Context, ingress string, d delivery) int {
	return s.post(ctx, ingress, d, endpointSecret, time.Now())
}

func (s *sender) post(ctx context.Context, ingress string, d delivery, secret provider.Secret, at time.Time) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ingress+"/webhooks/"+d.Account, strings.NewReader(d.Body))
	if err != nil {
		panic("campaign: impossible: " + err.Error())
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Stripe-Signature", stripe.Sign([]byte(d.Body), at, secret))
	resp, err := s.client.Do(req)
	if err != nil {
		s.count(d, 0)
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		s.count(d, 0) // the answer's end was lost; it counts as none
		return 0
	}
	s.count(d, resp.StatusCode)
	return resp.StatusCode
}

func (s *sender) count(d delivery, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status == 0 {
		s.broken++
		return
	}
	s.status[status]++
	if status/100 == 2 {
		s.acked[d.Account+" "+d.ID]++
	}
}

func (s *sender) acknowledged(d delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked[d.Account+" "+d.ID] > 0
}

// others returns the statuses that were no acknowledgement.
func (s *sender) others() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for status, n := range s.status {
		if status/100 != 2 {
			found = append(found, fmt.Sprintf("%d × status %d", n, status))
		}
	}
	if s.broken > 0 {
		found = append(found, fmt.Sprintf("%d without an answer", s.broken))
	}
	return strings.Join(found, ", ")
}

// storm sends the deliveries from many connections, each to the ingress that
// to picks, until all are sent or until ends. It returns how many were sent.
func (s *sender) storm(ctx context.Context, connections int, deliveries []delivery, to func(i int) string, until <-chan struct{}) int {
	next := make(chan int)
	var sending sync.WaitGroup
	for range connections {
		sending.Go(func() {
			for i := range next {
				s.send(ctx, to(i), deliveries[i])
			}
		})
	}
	sent := 0
feed:
	for i := range deliveries {
		select {
		case next <- i:
			sent++
		case <-until:
			break feed
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	sending.Wait()
	return sent
}
