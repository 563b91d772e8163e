package httpapi_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/store"
)

// held lets every read wait at its beginning.
type held struct {
	store.Store
	inside, leave chan struct{}
}

func (s *held) View(ctx context.Context, fn func(store.Reader) error) error {
	s.inside <- struct{}{}
	<-s.leave
	return s.Store.View(ctx, fn)
}

// The calls at once are bounded: one more is told to come back, whether the
// process lives can still be asked, and afterwards all is as before.
func TestOverload(t *testing.T) {
	const atOnce = 256
	s := &held{openSQLite(t), make(chan struct{}), make(chan struct{})}
	h := newHouse(t, s, nil)
	var all sync.WaitGroup
	answers := make([]*answer, atOnce)
	for i := range atOnce {
		all.Go(func() { answers[i] = h.ask(http.MethodGet, "/v1/events", "") })
	}
	for range atOnce {
		<-s.inside
	}
	h.get("/v1/events").refused(httpapi.CodeOverloaded, http.StatusServiceUnavailable)
	expect(t, "livez", h.get("/livez").status, http.StatusOK)
	close(s.leave)
	all.Wait()
	for _, a := range answers {
		a.items(http.StatusOK)
	}
	go func() { <-s.inside }()
	h.get("/v1/events").items(http.StatusOK)
}
