package provider

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/unavez/unavez/payment"
)

// Refusals of a delivery. The first three answer 400 and store nothing.
var (
	// ErrSignature: no configured secret matches, or the signature is missing
	// or cannot be read.
	ErrSignature = errors.New("provider: signature does not verify")
	// ErrAge: the signature verifies, but its time stamp is outside the
	// tolerance of the contract, on either side.
	ErrAge = errors.New("provider: time stamp outside the tolerance")
	// ErrForm: the delivery cannot be split into items (an empty body, say).
	ErrForm = errors.New("provider: delivery has no readable form")
	// ErrMalformed: an authentic payload cannot be understood. It is stored,
	// acknowledged, and goes to the dead letters at once, bytes exact.
	ErrMalformed = errors.New("provider: payload cannot be understood")
)

// Mode is live or test money; it is part of every scope.
type Mode string

// The modes.
const (
	Live Mode = "live"
	Test Mode = "test"
)

// Secret is a credential. It never shows in logs or messages.
type Secret string

// LogValue redacts the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue("[secret]") }

// String redacts the secret; use string(s) for its bytes.
func (Secret) String() string { return "[secret]" }

// Account is one merchant account at a provider, as far as adapters need it.
type Account struct {
	Name            string
	Provider        string
	ProviderAccount string
	Mode            Mode
	// Secrets verify deliveries; any match accepts (several while rotating, or
	// one for each endpoint of the account). Never empty.
	Secrets []Secret
	// APIKey and BaseURL are for calls to the provider.
	APIKey  Secret
	BaseURL string
	// OrderMetadata is the metadata key that carries the merchant's order id.
	OrderMetadata string
	// EventPrefix: references with this prefix are the merchant's own.
	EventPrefix string
	// Capture is automatic or manual, for providers whose events do not say.
	Capture string
}

// The keys under which our ids travel in a provider's metadata, and the one that
// an account reads the order from when it names none.
const (
	MetadataPayment      = "unavez_payment"
	MetadataOperation    = "unavez_operation"
	DefaultOrderMetadata = "order_id"
)

// Delivery is one HTTP request from a provider, bytes as received.
type Delivery struct {
	Header     http.Header
	Query      url.Values
	Body       []byte
	ReceivedAt time.Time
}

// Item is one authenticated notification inside a delivery.
type Item struct {
	Payload []byte
	// Hint marks an item that is unsigned by the provider's own contract: it is
	// stored and yields no facts.
	Hint bool
}

// Event is what an adapter reads from one payload.
type Event struct {
	// Identity is the event's documented identity inside account and mode (for
	// a connected account it includes that account).
	Identity string
	// ProviderEventID is the provider's id of the event, or the identity.
	ProviderEventID string
	Type            string
	Mode            Mode
	// Connected is the connected account that the event belongs to; empty for
	// the account itself.
	Connected string
	// OccurredAt is the provider's time of the event; it never orders anything.
	OccurredAt time.Time
	// Lane is the name under which the work is queued: the line if known, else
	// the event's identity.
	Lane string
	// Thin says that the event carries only a reference and is kept for a look-up or a person.
	Thin bool
	// Ours says that the event carries our metadata or the account's prefix, so
	// that it may become an exception when it never matches.
	Ours bool
	payment.Evidence
}

// Acknowledgement is the answer that makes the provider stop delivering.
type Acknowledgement struct {
	Status      int
	ContentType string
	Body        []byte
}

// Adapter is what every provider offers.
type Adapter interface {
	// Contract returns the provider's delivery contract as data.
	Contract() *Contract
	// Verify authenticates the raw bytes by the provider's documented mechanism
	// in constant time, against the time of receipt, and splits a batch. When
	// some items verify and others do not, it returns the good ones together
	// with an error that wraps ErrSignature.
	Verify(acc *Account, d *Delivery) ([]Item, error)
	// Parse reads one payload. When the payload cannot be understood, it returns
	// an error that wraps ErrMalformed and an Event with as much identity as
	// could be read (Identity may be empty: the digest of the bytes is used then).
	Parse(acc *Account, payload []byte) (Event, error)
	// Acknowledgement is sent for everything that is durable or a known duplicate.
	Acknowledgement() Acknowledgement
	// CaptureSpeaks is the form of captures that notifies for the account.
	CaptureSpeaks(acc *Account) payment.Form
}

// Resigner is offered by adapters whose signature is symmetric: a handler that
// exists already can stand behind us and verify as before, against the time at
// which we pass the bytes on.
type Resigner interface {
	// Resign returns the signature headers for the bytes under the secrets.
	Resign(body []byte, secrets []Secret, at time.Time) http.Header
}
