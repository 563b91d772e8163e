package simulator

import (
	"log/slog"
	"net/http"
	"time"
)

// The bounds and defaults of a Config whose fields are zero.
const (
	defaultAPIKey          = "sk_test_simulator"
	defaultWebhookSecret   = "whsec_simulator"
	defaultAccount         = "acct_simulator"
	defaultAPIVersion      = "2026-07-29.dahlia"
	defaultOrderMetadata   = "order_id"
	defaultKeyTTL          = 24 * time.Hour
	defaultWorkers         = 8
	defaultDeliveryTimeout = 10 * time.Second
	defaultRetryBase       = time.Second
	defaultRetryMax        = time.Hour
	defaultAttemptsMax     = 16
	defaultEventsMax       = 100_000
	defaultObjectsMax      = 1_000_000
	defaultKeysMax         = 1_000_000

	bodyBytesMax    = 1 << 20 // of an API or control request
	answerBytesMax  = 1 << 16 // of a webhook's answer, read so that the connection can be reused
	endpointsMax    = 16
	faultsMax       = 1000
	keyCharsMax     = 255
	pageMax         = 100
	pageDefault     = 10
	eventTypesMax   = 20
	amountMax       = 999_999_999_999
	metadataMax     = 50
	metadataKeyMax  = 40
	metadataBytes   = 500
	slowInterval    = time.Second            // between two bytes of a slow answer
	windowDefault   = 8                      // deliveries shuffled together
	windowTime      = 200 * time.Millisecond // after which a window is let go unfilled
	webhookDelay    = time.Second
	copiesMax       = 100
	basisPointsOne  = 10_000
	retryJitterPart = 4 // jitter is at most a quarter of the interval
)

// Config says what the simulated account is. The zero value works: test mode,
// API key sk_test_simulator, secret whsec_simulator, no webhooks.
type Config struct {
	APIKey  string // the secret key that callers present
	Account string // our own account, acct_…
	Live    bool   // livemode of everything

	WebhookURL    string     // one endpoint in short; empty: none
	WebhookSecret string     // its secret
	Secrets       []string   // further secrets of it, as while one is being rolled
	Endpoints     []Endpoint // further endpoints

	APIVersion    string // of events and answers; decides where invoices name their payment
	OrderMetadata string // the metadata key whose value the books show as the order
	ControlToken  string // bearer token of the control calls; empty: none needed

	Seed uint64           // of ids and of chance
	Now  func() time.Time // instants in objects and signatures; time.Now if nil

	KeyTTL         time.Duration // how long idempotency keys are kept, 24 h
	SearchDelay    time.Duration // how long search does not yet see an object
	RefundsPending bool          // refunds stay pending until a trigger settles them
	// ReleaseAsRefund shows a released authorization as a refund on the charge,
	// with its own charge.refunded event. The books say released in any case.
	ReleaseAsRefund bool
	FeeBasisPoints  int64 // fee on balance transactions of charges, rounded down

	// Webhook deliveries. Their due times run by the runtime's clock, not by
	// Now, so that a frozen Now does not stop them.
	Workers         int
	DeliveryTimeout time.Duration
	RetryBase       time.Duration // before the second attempt; doubles, with jitter
	RetryMax        time.Duration
	AttemptsMax     int
	Client          *http.Client // its redirects are not followed

	EventsMax  int // the oldest settled events go first; full of unsettled ones: 429
	ObjectsMax int // objects and movements; beyond: 429
	KeysMax    int // idempotency keys; beyond: 429

	Logger *slog.Logger // ids and results only; discarded if nil
}

// Endpoint is where webhooks go. Several secrets give several v1 signatures in
// one header. Types are patterns such as "charge.*"; none means all.
type Endpoint struct {
	URL     string   `json:"url"`
	Secrets []string `json:"secrets,omitempty"`
	Types   []string `json:"types,omitempty"`
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

func (c Config) withDefaults() Config {
	c.APIKey = or(c.APIKey, defaultAPIKey)
	c.Account = or(c.Account, defaultAccount)
	c.APIVersion = or(c.APIVersion, defaultAPIVersion)
	c.OrderMetadata = or(c.OrderMetadata, defaultOrderMetadata)
	c.KeyTTL = or(c.KeyTTL, defaultKeyTTL)
	c.Workers = or(c.Workers, defaultWorkers)
	c.DeliveryTimeout = or(c.DeliveryTimeout, defaultDeliveryTimeout)
	c.RetryBase = or(c.RetryBase, defaultRetryBase)
	c.RetryMax = or(c.RetryMax, defaultRetryMax)
	c.AttemptsMax = or(c.AttemptsMax, defaultAttemptsMax)
	c.EventsMax = or(c.EventsMax, defaultEventsMax)
	c.ObjectsMax = or(c.ObjectsMax, defaultObjectsMax)
	c.KeysMax = or(c.KeysMax, defaultKeysMax)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// endpoints are the configured ones, the short form first.
func (c Config) endpoints() []Endpoint {
	var all []Endpoint
	if c.WebhookURL != "" {
		secrets := c.Secrets
		if c.WebhookSecret != "" {
			secrets = append([]string{c.WebhookSecret}, secrets...)
		}
		all = append(all, Endpoint{URL: c.WebhookURL, Secrets: secrets})
	}
	return append(all, c.Endpoints...)
}

// client is the configured one, made to treat a redirect as the answer.
func (c Config) client() *http.Client {
	hc := http.Client{}
	if c.Client != nil {
		hc = *c.Client
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = nil
		t.MaxIdleConnsPerHost = c.Workers
		hc.Transport = t
	}
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &hc
}
