package unavez

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/unavez/unavez/outbox"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/all"
)

// Config is everything that an Engine needs. Zero values are the defaults that
// the comments name. The yaml names are those of the configuration file.
type Config struct {
	Listen Listen `yaml:"listen"`
	// Database is the path of an SQLite file (unavez.db by default) or a
	// postgres:// URL.
	Database     string        `yaml:"database"`
	Tokens       []Token       `yaml:"tokens"`
	Accounts     []Account     `yaml:"accounts"`
	Destinations []Destination `yaml:"destinations"`
	Approvals    Approvals     `yaml:"approvals"`
	Audit        Audit         `yaml:"audit"`
	Limits       Limits        `yaml:"limits"`
	Work         Work          `yaml:"work"`
	API          API           `yaml:"api"`
	Log          Log           `yaml:"log"`
	// AdminTokenFile is where the first start writes an admin token, readable by
	// its owner alone (unavez-admin-token by default, beside an SQLite file).
	AdminTokenFile string `yaml:"admin_token_file"`
}

// Listen names the two listeners: the internet's edge, and the private one for
// API, console and metrics.
type Listen struct {
	Ingress string `yaml:"ingress"` // 127.0.0.1:8080
	Private string `yaml:"private"` // 127.0.0.1:8081
	// Hosts are the names under which the private listener may be addressed,
	// besides loopback and the listening address.
	Hosts []string `yaml:"hosts"`
}

// Token is an API token of the configuration.
type Token struct {
	Name   string          `yaml:"name"`
	Role   string          `yaml:"role"` // read, operate, approve, admin
	Secret provider.Secret `yaml:"secret"`
}

// Account is one merchant account at a provider.
type Account struct {
	Name            string            `yaml:"name"`
	Provider        string            `yaml:"provider"`
	ProviderAccount string            `yaml:"provider_account"`
	MerchantAccount string            `yaml:"merchant_account"`
	Mode            provider.Mode     `yaml:"mode"`
	Secrets         []provider.Secret `yaml:"secrets"`
	APIKey          provider.Secret   `yaml:"api_key"`
	BaseURL         string            `yaml:"base_url"`
	Shop            string            `yaml:"shop"`       // default
	FulfillOn       payment.FulfillOn `yaml:"fulfill_on"` // captured
	FulfillWithin   time.Duration     `yaml:"fulfill_within"`
	Unregistered    string            `yaml:"unregistered"` // wait
	WaitFor         time.Duration     `yaml:"wait_for"`     // 24h
	OrderMetadata   string            `yaml:"order_metadata"`
	Quiet           time.Duration     `yaml:"quiet"` // 1h
	EventPrefix     string            `yaml:"event_prefix"`
	Processing      string            `yaml:"processing"` // async
	Capture         string            `yaml:"capture"`
}

// Destination is a system of the merchant that is told what happened.
type Destination struct {
	Name    string            `yaml:"name"`
	URL     string            `yaml:"url"`
	Types   []string          `yaml:"types"`
	Secret  provider.Secret   `yaml:"secret"`
	Secrets []provider.Secret `yaml:"secrets"`
	// Idempotent is false where the destination cannot deduplicate; an
	// ambiguous attempt then waits for a person.
	Idempotent   *bool             `yaml:"idempotent"`
	AllowPrivate bool              `yaml:"allow_private"`
	Timeout      time.Duration     `yaml:"timeout"`     // 15s
	Concurrency  int               `yaml:"concurrency"` // 8
	Headers      map[string]string `yaml:"headers"`
}

// Approvals says when a second person is needed.
type Approvals struct {
	Corrections     int              `yaml:"corrections"`
	OperationsAbove map[string]int64 `yaml:"operations_above"`
}

// Audit configures the sealing of the audit chains.
type Audit struct {
	SealKey   provider.Secret `yaml:"seal_key"`
	SealEvery time.Duration   `yaml:"seal_every"`
	Export    string          `yaml:"export"`
}

// Limits bound what the ingress accepts.
type Limits struct {
	BodyBytesMax      int64         `yaml:"body_bytes_max"`      // 1 MiB
	InFlightBytesMax  int64         `yaml:"in_flight_bytes_max"` // 32 MiB
	ConnectionsMax    int           `yaml:"connections_max"`     // 2048
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout"` // 5s
	ReadBodyTimeout   time.Duration `yaml:"read_body_timeout"`   // 10s
	QueueEntriesMax   int           `yaml:"queue_entries_max"`   // 4096
}

// Work tunes the workers.
type Work struct {
	Workers      int           `yaml:"workers"`       // 2
	Attempts     int           `yaml:"attempts"`      // 5
	EntryTimeout time.Duration `yaml:"entry_timeout"` // 30s
	// Lease is at least twice EntryTimeout; the server refuses to start otherwise.
	Lease time.Duration `yaml:"lease"`
	Poll  time.Duration `yaml:"poll"`
	// BackoffBase and BackoffCap bound the pauses between attempts.
	BackoffBase time.Duration `yaml:"backoff_base"`
	BackoffCap  time.Duration `yaml:"backoff_cap"`
}

// API tunes the private API.
type API struct {
	// KeyLifetime is how long an answer is replayed under its Idempotency-Key,
	// and its tombstone stays for as long again.
	KeyLifetime time.Duration `yaml:"key_lifetime"` // 24h
	// MetricsOpen serves /metrics without a token.
	MetricsOpen bool `yaml:"metrics_open"` // false
}

// Log configures logging.
type Log struct {
	Level  string `yaml:"level"`  // info
	Format string `yaml:"format"` // text on a terminal, else json
}

// Defaults of the file.
const (
	DefaultIngress       = "127.0.0.1:8080"
	DefaultPrivate       = "127.0.0.1:8081"
	DefaultDatabase      = "unavez.db"
	DefaultOrderMetadata = "order_id"
	DefaultKeyLifetime   = 24 * time.Hour
)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Problems are everything that is wrong with a configuration, at once.
type Problems []string

func (p Problems) Error() string { return "configuration: " + strings.Join(p, "; ") }

func (p *Problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// Fill sets the defaults and checks the whole configuration. The error is
// Problems and names every fault.
func (c *Config) Fill() error {
	orDefault(&c.Listen.Ingress, DefaultIngress)
	orDefault(&c.Listen.Private, DefaultPrivate)
	orDefault(&c.Database, DefaultDatabase)
	orDefault(&c.API.KeyLifetime, DefaultKeyLifetime)
	var p Problems
	c.checkAccounts(&p)
	c.checkTokens(&p)
	c.checkDestinations(&p)
	if c.Work.Lease != 0 && c.Work.EntryTimeout != 0 && c.Work.Lease < 2*c.Work.EntryTimeout {
		p.add("work.lease %s is shorter than twice work.entry_timeout %s", c.Work.Lease, c.Work.EntryTimeout)
	}
	if len(p) > 0 {
		return p
	}
	return nil
}

func (c *Config) checkAccounts(p *Problems) {
	adapters := all.Adapters()
	seen := map[string]bool{}
	for i := range c.Accounts {
		a := &c.Accounts[i]
		where := fmt.Sprintf("accounts[%d]", i)
		if a.Name != "" {
			where = "account " + a.Name
		}
		if !namePattern.MatchString(a.Name) {
			p.add("%s: name must be lower-case letters, digits, - and _, at most 63 characters", where)
		}
		if seen[a.Name] {
			p.add("%s: the name stands twice; several endpoints of one account are several secrets of it", where)
		}
		seen[a.Name] = true
		if adapters[a.Provider] == nil {
			p.add("%s: provider %q is not known", where, a.Provider)
		}
		if a.Mode != provider.Live && a.Mode != provider.Test {
			p.add("%s: mode must be live or test", where)
		}
		if len(a.Secrets) == 0 || slices.Contains(a.Secrets, "") {
			p.add("%s: has no secret or an empty one; nothing would be verified", where)
		}
		a.check(p, where)
	}
}

func (a *Account) check(p *Problems, where string) {
	orDefault(&a.Shop, "default")
	orDefault(&a.OrderMetadata, DefaultOrderMetadata)
	orDefault(&a.Processing, "async")
	orDefault(&a.Unregistered, "wait")
	orDefault(&a.FulfillOn, payment.OnCaptured)
	oneOf(p, where+": fulfill_on", string(a.FulfillOn), "captured", "authorized")
	oneOf(p, where+": unregistered", a.Unregistered, "wait", "adopt", "ignore")
	oneOf(p, where+": processing", a.Processing, "async", "sync")
	if a.Capture != "" {
		oneOf(p, where+": capture", a.Capture, "manual", "automatic")
	}
	for name, d := range map[string]time.Duration{"fulfill_within": a.FulfillWithin, "wait_for": a.WaitFor, "quiet": a.Quiet} {
		if d < 0 {
			p.add("%s: %s is negative", where, name)
		}
	}
}

func (c *Config) checkTokens(p *Problems) {
	seen := map[string]bool{}
	for i, t := range c.Tokens {
		where := fmt.Sprintf("tokens[%d]", i)
		if t.Name == "" || seen[t.Name] {
			p.add("%s: name is missing or stands twice", where)
		}
		seen[t.Name] = true
		oneOf(p, where+": role", t.Role, "read", "operate", "approve", "admin")
		if t.Secret == "" {
			p.add("%s: has no secret", where)
		}
	}
}

func (c *Config) checkDestinations(p *Problems) {
	if err := outbox.Validate(c.destinations()); err != nil {
		*p = append(*p, strings.Split(err.Error(), "\n")...)
	}
}

func oneOf(p *Problems, what, v string, allowed ...string) {
	if !slices.Contains(allowed, v) {
		p.add("%s is %q, not %s", what, v, strings.Join(allowed, ", "))
	}
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c *Config) destinations() []outbox.Destination {
	var list []outbox.Destination
	for _, d := range c.Destinations {
		secrets := d.Secrets
		if d.Secret != "" {
			secrets = append([]provider.Secret{d.Secret}, secrets...)
		}
		list = append(list, outbox.Destination{
			Name: d.Name, URL: d.URL, Types: d.Types, Secrets: secrets, Idempotent: d.Idempotent,
			AllowPrivate: d.AllowPrivate, Timeout: d.Timeout, Concurrency: d.Concurrency, Headers: d.Headers,
		})
	}
	return list
}
