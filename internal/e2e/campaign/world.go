package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/provider"
)

// The secrets of the world, by the environment variables that carry them.
const (
	apiToken       = "a token for the oracle that is long enough"
	endpointSecret = provider.Secret("whsec_the_endpoint_of_the_campaign")
)

// account is the merchant's account in most campaigns.
const account = "stripe-es"

// options are what a campaign changes in the configuration.
type options struct {
	// accounts replaces the one account, as YAML lines.
	accounts string
	// entry is the time limit of an entry and of an attempt at the shop; leases
	// are twice as long.
	entry time.Duration
	// destinationOnce says that the shop cannot deduplicate.
	destinationOnce bool
}

// world is one ledger, the shop that it tells, and the processes on it.
type world struct {
	e      *Env
	kind   string
	shop   *shop
	config string
	drop   func()
	nodes  []*node
	client *http.Client
}

func newWorld(ctx context.Context, e *Env, kind string, opt options) (*world, error) {
	address, drop, err := database(ctx, e, kind)
	if err != nil {
		return nil, err
	}
	w := &world{e: e, kind: kind, shop: newShop(), drop: drop, client: newClient()}
	w.config = filepath.Join(e.Dir, "unavez.yaml")
	if err := os.WriteFile(w.config, []byte(configuration(address, w.shop.server.URL, opt)), 0o600); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}, Timeout: requestWithin}
}

// requestWithin bounds a request, for processes that stand still.
const requestWithin = 30 * time.Second

// configuration is the file that the program is started with.
func configuration(database, shop string, opt options) string {
	if opt.accounts == "" {
		opt.accounts = accountLines(account, "default", "wait")
	}
	if opt.entry == 0 {
		opt.entry = 5 * time.Second
	}
	return fmt.Sprintf(`listen: {ingress: "127.0.0.1:0", private: "127.0.0.1:0"}
database: %q
tokens: [{name: oracle, role: admin, secret: "env:E2E_TOKEN"}]
accounts:
%sdestinations:
  - {name: shop, url: %q, types: ["*"], secret: "env:E2E_SHOP", allow_private: true, timeout: %s, idempotent: %t}
work: {entry_timeout: %s, lease: %s, poll: 100ms, attempts: 50, backoff_base: 50ms, backoff_cap: 1s}
log: {level: info, format: json}
`, database, opt.accounts, shop, opt.entry, !opt.destinationOnce, opt.entry, 2*opt.entry)
}

// accountLines is one account of the configuration file.
func accountLines(name, shop, unregistered string) string {
	return fmt.Sprintf("  - {name: %s, provider: stripe, mode: test, secrets: [\"env:E2E_ENDPOINT\"], shop: %s, unregistered: %s, quiet: 1h}\n",
		name, shop, unregistered)
}

// start starts a process on the ledger.
func (w *world) start(ctx context.Context, c crash) (*node, error) {
	n, err := startNode(ctx, w.e, w.config, []string{
		"E2E_TOKEN=" + apiToken, "E2E_SHOP=" + shopSecret, "E2E_ENDPOINT=" + string(endpointSecret),
		"UNAVEZ_ADMIN_TOKEN_FILE=" + filepath.Join(w.e.Dir, "admin-token"),
	}, c)
	if n != nil {
		w.nodes = append(w.nodes, n)
	}
	return n, err
}

// close ends everything that is left of the world.
func (w *world) close() {
	for _, n := range w.nodes {
		n.kill()
	}
	w.client.CloseIdleConnections()
	w.shop.close()
	w.drop()
}

// money is an amount as the API takes it.
type money struct {
	Value    int64  `json:"value"`
	Currency string `json:"currency"`
}

func eur(value int64) *money { return &money{value, "EUR"} }

// registration is the body of POST /v1/payments.
type registration struct {
	Order      string   `json:"order"`
	OrderTotal *money   `json:"order_total,omitzero"`
	Account    string   `json:"account"`
	Amount     *money   `json:"amount"`
	References []string `json:"references,omitzero"`
}

// retryable says whether the answer asks for the same request once more.
func retryable(status int, body []byte) bool {
	return status == http.StatusServiceUnavailable ||
		status == http.StatusConflict && strings.Contains(string(body), "key_in_progress")
}

// retryPause is between two tries of a request that the API asks to send again.
const retryPause = 50 * time.Millisecond

// register registers a payment at a node. As a shop does, it sends the same
// request again while the answer is that nothing was done yet (503, 409 under
// way); the campaign's own time bounds that.
func (w *world) register(ctx context.Context, n *node, r registration) error {
	if r.Account == "" {
		r.Account = account
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	key := "register-" + r.Account + "-" + r.Order + "-" + strings.Join(r.References, "-")
	status, body, err := w.call(ctx, n, http.MethodPost, "/v1/payments", raw, key)
	for err == nil && retryable(status, body) && ctx.Err() == nil {
		time.Sleep(retryPause) // nothing tells when the ledger is free again
		status, body, err = w.call(ctx, n, http.MethodPost, "/v1/payments", raw, key)
	}
	if err != nil {
		return fmt.Errorf("registering order %s: %w", r.Order, err)
	}
	if status != http.StatusCreated && status != http.StatusOK {
		return fmt.Errorf("registering order %s: status %d: %s", r.Order, status, body)
	}
	return nil
}

// call makes one request to the private API.
func (w *world) call(ctx context.Context, n *node, method, path string, body []byte, key string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, n.private+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+apiToken)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw := new(bytes.Buffer)
	_, err = raw.ReadFrom(resp.Body)
	return resp.StatusCode, raw.Bytes(), err
}

// get reads one object.
func get[T any](ctx context.Context, w *world, n *node, path string) (T, error) {
	var v T
	status, body, err := w.call(ctx, n, http.MethodGet, path, nil, "")
	if err != nil {
		return v, fmt.Errorf("reading %s: %w", path, err)
	}
	if status != http.StatusOK {
		return v, fmt.Errorf("reading %s: status %d: %s", path, status, body)
	}
	return v, json.Unmarshal(body, &v)
}

// list reads a whole list, page by page.
func list[T any](ctx context.Context, w *world, n *node, path string, filter url.Values, idOf func(*T) string) ([]T, error) {
	var all []T
	query := url.Values{"limit": {"100"}}
	for name, values := range filter {
		query[name] = values
	}
	for {
		page, err := get[struct {
			Data    []T            `json:"data"`
			HasMore bool           `json:"has_more"`
			Rest    jsontext.Value `json:",unknown"`
		}](ctx, w, n, path+"?"+query.Encode())
		if err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if !page.HasMore || len(page.Data) == 0 {
			return all, nil
		}
		query.Set("starting_after", idOf(&page.Data[len(page.Data)-1]))
	}
}

// event, payment, message and exception are the parts of the API's objects that
// the oracle compares.
type eventRow struct {
	ID              string `json:"id"`
	ProviderEventID string `json:"provider_event_id"`
	Account         string `json:"account"`
	State           string `json:"state"`
	Outcome         string `json:"outcome"`
	Reason          string `json:"reason"`
	Error           string `json:"error"`
	Deliveries      int    `json:"deliveries"`
	Order           string `json:"order"`
	Attempts        int    `json:"attempts"`
}

type paymentRow struct {
	ID          string `json:"id"`
	Order       string `json:"order"`
	Shop        string `json:"shop"`
	State       string `json:"state"`
	Fulfillment string `json:"fulfillment"`
	Adopted     bool   `json:"adopted"`
	Totals      struct {
		Authorized money `json:"authorized"`
		Captured   money `json:"captured"`
		Refunded   money `json:"refunded"`
	} `json:"totals"`
	OtherTotals map[string]struct {
		Captured money `json:"captured"`
	} `json:"other_totals"`
}

type messageRow struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Order    string `json:"order"`
	State    string `json:"state"`
	Attempts int    `json:"attempts"`
	Error    string `json:"error"`
}

type exceptionRow struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	State  string `json:"state"`
	Order  string `json:"order"`
	Amount money  `json:"amount"`
	Event  string `json:"event"`
}

func (w *world) events(ctx context.Context, n *node, filter url.Values) ([]eventRow, error) {
	return list(ctx, w, n, "/v1/events", filter, func(r *eventRow) string { return r.ID })
}

func (w *world) payments(ctx context.Context, n *node, filter url.Values) ([]paymentRow, error) {
	return list(ctx, w, n, "/v1/payments", filter, func(r *paymentRow) string { return r.ID })
}

func (w *world) messages(ctx context.Context, n *node, filter url.Values) ([]messageRow, error) {
	return list(ctx, w, n, "/v1/messages", filter, func(r *messageRow) string { return r.ID })
}

func (w *world) exceptions(ctx context.Context, n *node) ([]exceptionRow, error) {
	return list(ctx, w, n, "/v1/exceptions", nil, func(r *exceptionRow) string { return r.ID })
}

// settleWithin bounds the wait for the queues to be empty. It is no claim about
// speed: the machine may be busy with other things.
const settleWithin = 4 * time.Minute

var errUnsettled = errors.New("work is left")

// settle waits until no event is received or in work and no message pending.
// It looks twice, because what is seen in neither of two states may have gone
// from the one to the other in between.
func (w *world) settle(ctx context.Context, n *node) error {
	deadline := time.Now().Add(settleWithin)
	for quiet := 0; ; {
		left, err := w.left(ctx, n)
		switch {
		case err != nil:
			return err
		case left == "":
			if quiet++; quiet == 2 {
				return nil
			}
		case time.Now().After(deadline):
			return fmt.Errorf("%w after %s: %s", errUnsettled, settleWithin, left)
		default:
			quiet = 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.ended:
			return n.unready(crash{})
		case <-time.After(5 * pollEvery):
		}
	}
}

// left names something that is still to be done.
func (w *world) left(ctx context.Context, n *node) (string, error) {
	for _, state := range []string{"received", "processing"} {
		page, err := get[struct {
			Data []eventRow `json:"data"`
		}](ctx, w, n, "/v1/events?limit=1&state="+state)
		if err != nil {
			return "", err
		}
		if len(page.Data) > 0 {
			return fmt.Sprintf("event %+v", page.Data[0]), nil
		}
	}
	page, err := get[struct {
		Data []messageRow `json:"data"`
	}](ctx, w, n, "/v1/messages?limit=1&state=pending")
	if err != nil || len(page.Data) == 0 {
		return "", err
	}
	return fmt.Sprintf("message %+v", page.Data[0]), nil
}
