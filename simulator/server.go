package simulator

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Server is the simulated provider. It is an http.Handler; the zero value is
// not usable, see New. All methods may be called at once from many goroutines.
type Server struct {
	cfg Config
	mux *http.ServeMux

	// mu guards the whole simulated world below. Queue and faults have locks of
	// their own, which are taken after mu and never before it.
	mu       sync.Mutex
	ids      *rand.Rand
	seq      int64
	intents  table[*intent]
	charges  table[*charge]
	refunds  table[*refund]
	disputes table[*dispute]
	sessions table[*session]
	invoices table[*invoice]
	txns     table[*txn]
	events   eventLog
	ledger   ledger
	keys     map[string]*keyRecord

	queue  *queue
	faults *faults
	holds  *holds

	requestMu  sync.Mutex
	requestIDs *rand.Rand
}

// New makes a server with nothing in it. Webhooks queue until Start. It panics
// on more endpoints than 16, since nothing could be done about it later.
func New(cfg Config) *Server {
	cfg = cfg.withDefaults()
	if len(cfg.endpoints()) > endpointsMax {
		panic("simulator: more than 16 endpoints")
	}
	s := &Server{
		cfg: cfg, ids: newRand(cfg.Seed, streamIDs), requestIDs: newRand(cfg.Seed, streamRequests),
		ledger: ledger{totals: Sums{}}, keys: map[string]*keyRecord{},
		faults: newFaults(cfg.Seed), holds: newHolds(),
	}
	s.queue = newQueue(cfg, s.settled)
	s.mux = s.routes()
	return s
}

// call is one API call or trigger on its way through the server.
type call struct {
	srv     *Server
	id      string // req_…; empty for what happens by itself
	key     string
	account string
	url     string
	path    map[string]string
	params  params
	now     time.Time
	events  []string
}

// route is one API endpoint. Its handler runs under s.mu and either changes
// everything it means to change or, with an early error, nothing.
type route struct {
	pattern string
	allowed []string
	handle  func(*call) (object, *apiError)
}

var listParams = []string{"limit", "starting_after", "ending_before", "created"}

func with(base []string, more ...string) []string {
	return append(append([]string(nil), base...), more...)
}

var intentParams = []string{
	"amount", "currency", "payment_method", "payment_method_types", "payment_method_options", "payment_method_data",
	"confirm", "capture_method", "confirmation_method", "customer", "description", "metadata",
	"automatic_payment_methods", "off_session", "receipt_email", "return_url", "setup_future_usage", "shipping",
	"statement_descriptor", "statement_descriptor_suffix", "transfer_group", "error_on_requires_action", "mandate",
	"use_stripe_sdk", "on_behalf_of", "application_fee_amount", "transfer_data",
}

func apiRoutes() []route {
	return []route{
		{"POST /v1/payment_intents", intentParams, createIntent},
		{"GET /v1/payment_intents", with(listParams, "customer"), listIntents},
		{"GET /v1/payment_intents/search", []string{"query", "limit", "page"}, searchIntents},
		{"GET /v1/payment_intents/{id}", []string{"client_secret"}, getIntent},
		{"POST /v1/payment_intents/{id}/confirm", intentParams, confirmIntent},
		{"POST /v1/payment_intents/{id}/capture", []string{
			"amount_to_capture", "final_capture", "metadata", "application_fee_amount",
			"statement_descriptor", "statement_descriptor_suffix", "transfer_data",
		}, captureIntent},
		{"POST /v1/payment_intents/{id}/increment_authorization", []string{
			"amount", "description", "metadata", "application_fee_amount", "statement_descriptor", "transfer_data",
		}, incrementIntent},
		{"POST /v1/payment_intents/{id}/cancel", []string{"cancellation_reason"}, cancelIntent},
		{"GET /v1/charges", with(listParams, "payment_intent", "customer"), listCharges},
		{"GET /v1/charges/{id}", nil, getCharge},
		{"POST /v1/refunds", []string{
			"payment_intent", "charge", "amount", "reason", "metadata", "refund_application_fee",
			"reverse_transfer", "instructions_email",
		}, createRefund},
		{"GET /v1/refunds", with(listParams, "payment_intent", "charge"), listRefunds},
		{"GET /v1/refunds/{id}", nil, getRefund},
		{"GET /v1/disputes", with(listParams, "payment_intent", "charge"), listDisputes},
		{"GET /v1/disputes/{id}", nil, getDispute},
		{"GET /v1/checkout/sessions", with(listParams, "payment_intent", "status"), listSessions},
		{"GET /v1/checkout/sessions/{id}", nil, getSession},
		{"GET /v1/invoices", with(listParams, "customer", "status"), listInvoices},
		{"GET /v1/invoices/{id}", nil, getInvoice},
		{"GET /v1/balance_transactions", with(listParams, "type", "source", "payout", "currency"), listTxns},
		{"GET /v1/balance_transactions/{id}", nil, getTxn},
		{"GET /v1/events", with(listParams, "type", "types", "delivery_success"), listEvents},
		{"GET /v1/events/{id}", nil, getEvent},
		{"GET /v1/account", nil, getAccount},
	}
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, rt := range apiRoutes() {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, rt) })
	}
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, route{handle: unrecognized})
	})
	s.controlRoutes(mux)
	return mux
}

// ServeHTTP answers API and control calls.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func unrecognized(c *call) (object, *apiError) {
	return nil, &apiError{
		status: http.StatusNotFound, typ: typeInvalid, early: true,
		message: "Unrecognized request URL (" + c.url + ").",
	}
}

func (s *Server) requestID() string {
	s.requestMu.Lock()
	defer s.requestMu.Unlock()
	return mint(s.requestIDs, "req_", requestIDChars)
}

func getAccount(c *call) (object, *apiError) {
	id := c.srv.cfg.Account
	if c.account != "" {
		id = c.account
	}
	return object{"id": id, "object": "account", "charges_enabled": true, "payouts_enabled": true, "type": "standard"}, nil
}

// fetch finds an object of the call's account or answers that there is none.
func fetch[T any](c *call, t *table[T], id, noun string, b func(T) base) (T, *apiError) {
	row, ok := t.get(id)
	if !ok || b(row).account != c.account {
		var zero T
		return zero, missing(noun, id)
	}
	return row, nil
}

func (c *call) intent(id string) (*intent, *apiError) {
	return fetch(c, &c.srv.intents, id, "payment_intent", func(v *intent) base { return v.base })
}

func (c *call) charge(id string) (*charge, *apiError) {
	return fetch(c, &c.srv.charges, id, "charge", func(v *charge) base { return v.base })
}

func (c *call) refund(id string) (*refund, *apiError) {
	return fetch(c, &c.srv.refunds, id, "refund", func(v *refund) base { return v.base })
}

func getIntent(c *call) (object, *apiError) {
	v, bad := c.intent(c.path["id"])
	if bad != nil {
		return nil, bad
	}
	return c.srv.showIntent(v), nil
}

func getCharge(c *call) (object, *apiError) {
	v, bad := c.charge(c.path["id"])
	if bad != nil {
		return nil, bad
	}
	return c.srv.showCharge(v), nil
}

func getRefund(c *call) (object, *apiError) {
	v, bad := c.refund(c.path["id"])
	if bad != nil {
		return nil, bad
	}
	return c.srv.showRefund(v), nil
}

func getDispute(c *call) (object, *apiError) {
	v, bad := fetch(c, &c.srv.disputes, c.path["id"], "dispute", func(v *dispute) base { return v.base })
	if bad != nil {
		return nil, bad
	}
	return c.srv.showDispute(v), nil
}

func getSession(c *call) (object, *apiError) {
	v, bad := fetch(c, &c.srv.sessions, c.path["id"], "checkout.session", func(v *session) base { return v.base })
	if bad != nil {
		return nil, bad
	}
	return c.srv.showSession(v), nil
}

func getInvoice(c *call) (object, *apiError) {
	v, bad := fetch(c, &c.srv.invoices, c.path["id"], "invoice", func(v *invoice) base { return v.base })
	if bad != nil {
		return nil, bad
	}
	return c.srv.showInvoice(v), nil
}

func getTxn(c *call) (object, *apiError) {
	v, bad := fetch(c, &c.srv.txns, c.path["id"], "balance transaction", func(v *txn) base { return v.base })
	if bad != nil {
		return nil, bad
	}
	return c.srv.showTxn(v), nil
}
