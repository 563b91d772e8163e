package receive_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/receive"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
	"github.com/unavez/unavez/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	oldSecret = "whsec_canary_old_4242"
	newSecret = "whsec_canary_new_4343"
)

// edge is a running receiver over a real ledger and a real server.
type edge struct {
	store   store.Store
	inbox   *inbox.Inbox
	metrics *inbox.Metrics
	url     string
	address string
	client  *http.Client
	log     *safeBuffer
}

// safeBuffer is a buffer for several writers.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

type change struct {
	limits   receive.Limits
	inbox    inbox.Options
	accounts []receive.Account
	sync     inbox.Synchronous
	wrap     func(store.Store) store.Store
	open     func(*testing.T) store.Store // SQLite if nil
}

func newEdge(t *testing.T, c change) *edge {
	t.Helper()
	if c.open == nil {
		c.open = openSQLite
	}
	e := &edge{store: c.open(t), metrics: inbox.NewMetrics(), log: &safeBuffer{}}
	if c.wrap != nil {
		e.store = c.wrap(e.store)
	}
	logger := slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.inbox.Logger, c.inbox.Metrics = logger, e.metrics
	in, err := inbox.New(e.store, c.inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.inbox = in
	t.Cleanup(func() { e.stop(t) })
	if c.accounts == nil {
		c.accounts = []receive.Account{shop()}
	}
	h, err := receive.New(receive.Options{
		Accounts: c.accounts, Inbox: in, Sync: c.sync, Limits: c.limits, Logger: logger, Metrics: e.metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.serve(t, h, c.limits, logger)
	return e
}

func (e *edge) serve(t *testing.T, h http.Handler, limits receive.Limits, logger *slog.Logger) {
	t.Helper()
	l, err := receive.Listen(t.Context(), "127.0.0.1:0", limits)
	if err != nil {
		t.Fatal(err)
	}
	server := receive.NewServer(h, limits, logger)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); err != http.ErrServerClosed {
			t.Errorf("serving: %v", err)
		}
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	e.client = &http.Client{Transport: transport}
	e.address = l.Addr().String()
	e.url = "http://" + e.address + "/webhooks/"
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		serving.Wait()
	})
}

func (e *edge) stop(t *testing.T) {
	t.Helper()
	if err := e.inbox.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func openSQLite(t *testing.T) store.Store {
	t.Helper()
	return ready(t)(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{}))
}

func openPostgres(t *testing.T) store.Store {
	t.Helper()
	return ready(t)(postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{}))
}

func ready(t *testing.T) func(store.Store, error) store.Store {
	return func(s store.Store, err error) store.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		})
		if _, err := s.MigrateUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func shop() receive.Account {
	return receive.Account{
		Account: provider.Account{
			Name: "shop", Provider: "acme", Mode: provider.Live, Secrets: []provider.Secret{oldSecret, newSecret},
		},
		Adapter: acme{},
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

// post sends a body that is signed now.
func (e *edge) post(t *testing.T, account, body string, header ...string) answer {
	t.Helper()
	return e.do(t, http.MethodPost, account, strings.NewReader(body), header...)
}

func (e *edge) do(t *testing.T, method, account string, body io.Reader, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, e.url+account, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Acme-Time", strconv.FormatInt(time.Now().Unix(), 10))
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := e.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// dial opens a connection and sends the beginning of a request.
func (e *edge) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", e.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

func head(length string) string {
	return "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nAcme-Time: " + strconv.FormatInt(time.Now().Unix(), 10) + "\r\n" + length + "\r\n\r\n"
}

// stored returns the entries by identity.
func (e *edge) stored(t *testing.T) map[string]store.EntryStatus {
	t.Helper()
	all := map[string]store.EntryStatus{}
	err := e.store.View(t.Context(), func(r store.Reader) error {
		after := ""
		for {
			page, err := r.Entries(t.Context(), store.List{After: after, Limit: 100})
			if err != nil {
				return err
			}
			for _, s := range page {
				all[s.Scope.Account+"/"+s.Identity], after = s, s.ID
			}
			if len(page) < 100 {
				return nil
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
