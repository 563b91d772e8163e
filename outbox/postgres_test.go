package outbox

import (
	"context"
	"testing"
	"time"

	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/store/postgres"
)

// R8.1, R8.5: the same on PostgreSQL, where relays meet in the database alone.
func TestPostgres(t *testing.T) {
	for name, run := range map[string]func(b *bench, url string){
		"two relays":    func(b *bench, url string) { twoRelays(b, over(b.T, onPostgres(b.T, url)).store) },
		"retry at once": func(b *bench, _ string) { retryAtOnce(b) },
		"disorder": func(b *bench, _ string) {
			opt := b.options()
			opt.Backoff.Attempts, opt.Backoff.Base, opt.Backoff.Cap = 1000, time.Millisecond, 10*time.Millisecond
			disorder(b, opt, func() {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.URL(t)
			run(over(t, onPostgres(t, url)), url)
		})
	}
}

func onPostgres(t *testing.T, url string) *postgres.Store {
	s, err := postgres.Open(context.Background(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
