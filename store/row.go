package store

import (
	"time"

	"github.com/unavez/unavez/payment"
)

// All instants are UTC with microseconds. All ids and names are compared
// bytewise. Amounts are minor units.

// Scope is where names, facts and events live: never across accounts or modes.
type Scope struct {
	Account string
	Mode    string
	// Connected is the connected account, empty for the account itself.
	Connected string
}

// ScopedName is a name in its scope.
type ScopedName struct {
	Scope
	Value string
}

// Binding ties a name to a payment, or only locks it (empty Payment).
type Binding struct {
	ScopedName
	Payment string
	// Registered says that the merchant gave the name with the registration.
	Registered bool
}

// Name is a name of a payment.
type Name struct {
	ScopedName
	Registered bool
}

// Source says where an entry comes from.
type Source string

// The sources of entries.
const (
	SourceWebhook    Source = "webhook"
	SourceAnswer     Source = "answer"
	SourceLookup     Source = "lookup"
	SourceReport     Source = "report"
	SourceCorrection Source = "correction"
	SourceBackfill   Source = "backfill"
)

// Entry is one piece of evidence in the inbox; immutable.
type Entry struct {
	ID    string
	Scope Scope
	// Identity is unique by account and mode; for a connected account it
	// contains that account.
	Identity        string
	ProviderEventID string
	Type            string
	Source          Source
	ReceivedAt      time.Time
	OccurredAt      time.Time
	// BodyDigest is SHA-256 of the bytes, FactDigest of the facts they yield.
	BodyDigest []byte
	FactDigest []byte
	// VariantOf is the id of the entry whose copy with other facts this is.
	VariantOf string
	Trace     string
	// Malformed says that the bytes could not be understood at receipt.
	Malformed bool
}

// Body holds the bytes of an entry, exactly as received.
type Body struct {
	Bytes []byte
	// Header holds the headers that matter, as JSON.
	Header []byte
}

// EntryWithBody is an entry and its bytes.
type EntryWithBody struct {
	Entry
	Body
}

// Inserted says what became of an entry in InsertEntries.
type Inserted struct {
	New bool
	// ID is the id of the stored entry, ours or the earlier one.
	ID string
	// BodyDigest and FactDigest are those of the stored entry.
	BodyDigest []byte
	FactDigest []byte
}

// States of an entry; the first three are not final.
const (
	EntryReceived   = "received"
	EntryProcessing = "processing"
	EntryWaiting    = "waiting"
	EntryProcessed  = "processed"
	EntryDead       = "dead"
)

// Outcomes of an entry.
const (
	OutcomeApplied       = "applied"
	OutcomeDuplicate     = "duplicate"
	OutcomeIgnored       = "ignored"
	OutcomeContradiction = "contradiction"
)

// Result is the final state of an entry.
type Result struct {
	EntryID string
	// State is EntryProcessed or EntryDead.
	State   string
	Outcome string
	Payment string
	Order   string
	Reason  string
	// Error and Stack are kept of a dead entry.
	Error    string
	Stack    string
	Attempts int
	At       time.Time
}

// EntryStatus is an entry and how far it has come.
type EntryStatus struct {
	Entry
	State string
	Result
	// Deliveries counts the copies that came after the first delivery.
	Deliveries      int
	LastDeliveredAt time.Time
	// Attempts and NextAt of unfinished work.
	WorkAttempts int
	NextAt       time.Time
	LastError    string
}

// Work is an item for a queue.
type Work struct {
	Queue string
	ID    string
	Lane  string
	// Delay until it is due, by the ledger's clock.
	Delay time.Duration
}

// Postponed is an item that goes back to its queue.
type Postponed struct {
	ID    string
	Delay time.Duration
	Error string
	// Waiting marks an entry that waits for its payment.
	Waiting bool
	// Attempts, if not nil, sets the number of attempts (0 after a redrive).
	Attempts *int
}

// Waiting files an entry under a name.
type Waiting struct {
	EntryID string
	Name    ScopedName
}

// OrderKey names an order.
type OrderKey struct {
	Shop string
	ID   string
}

// States of the fulfillment of an order.
const (
	FulfillNone    = "none"
	FulfillHeld    = "held"
	FulfillSent    = "sent"
	FulfillRevoked = "revoked"
)

// Order is the row that is locked before its payments.
type Order struct {
	// ID is internal, ord_….
	ID  string
	Key OrderKey
	// Total is zero (no currency) while only adopted payments are known.
	Total       payment.Money
	Fulfillment string
	// Revocations numbers order.revoked and order.restored.
	Revocations int
	// ShippedAt is when the merchant said that it shipped.
	ShippedAt time.Time
	Audit     AuditHead
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Payment is our own record, with everything derived from its facts.
type Payment struct {
	ID    string
	Scope Scope
	Order OrderKey
	// Record fields.
	Expected   payment.Money
	Rule       payment.AmountRule
	FulfillOn  payment.FulfillOn
	Adopted    bool
	References []string
	// ByOrder says that it was registered without references, so that events
	// that carry the order id belong to it.
	ByOrder bool
	// View is derived; the store keeps it as JSON beside the columns State,
	// Dispute that lists filter by.
	View payment.View
	// Version grows with every change of the payment.
	Version int64
	// Sequence numbers the messages of the payment.
	Sequence int64
	// NewestFactAt is when the newest fact was stored.
	NewestFactAt time.Time
	Audit        AuditHead
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Fact is a stored fact.
type Fact struct {
	Payment string
	Scope   Scope
	payment.Fact
	// EntryID is the evidence that proved it first.
	EntryID string
	At      time.Time
}

// Effect is a recorded effect, unique by (Subject, Key).
type Effect struct {
	// Subject is the payment's id, or the order's for its fulfillment.
	Subject string
	Key     string
	Type    string
	// Decision is send, supersede or hold as the payment package names it.
	Decision string
	At       time.Time
}

// Changes is everything that one step derived. The writer stores it set-wise.
type Changes struct {
	// Facts are inserted each once by (scope, key, variant); one that is there
	// already is not an error.
	Facts    []Fact
	Payments []Payment
	Orders   []Order
	// Effects are upserted by (Subject, Key).
	Effects []Effect
	// Messages are inserted and their work enqueued, lane by payment.
	Messages   []Message
	Exceptions []Exception
	// Audit rows of payments and orders, already chained to their heads.
	Audit   []AuditRow
	Results []Result
	// Quiet makes payments due in QueueQuiet.
	Work []Work
}

// MessageState is the state of a message.
type MessageState string

// The states of a message.
const (
	MessagePending   MessageState = "pending"
	MessageDelivered MessageState = "delivered"
	MessageDead      MessageState = "dead"
	// MessageAmbiguous: an attempt may have arrived at a destination that
	// cannot deduplicate; a person decides.
	MessageAmbiguous MessageState = "ambiguous"
)

// Message is one thing that one destination is told.
type Message struct {
	ID          string
	Destination string
	Type        string
	Account     string
	Payment     string
	Order       string
	// Cause is the effect that the message tells of; a unique constraint on
	// (Destination, Cause) keeps one effect from being told twice.
	Cause string
	// Lane keeps order: messages of one lane go one after the other.
	Lane     string
	Sequence int64
	// Body is the JSON as it is sent, or the provider's original bytes.
	Body []byte
	// Header are extra headers for event.* messages, as JSON.
	Header      []byte
	State       MessageState
	Attempts    int
	LastError   string
	NextAt      time.Time
	CreatedAt   time.Time
	DeliveredAt time.Time
}

// Attempt is one attempt to deliver a message.
type Attempt struct {
	ID       string
	Message  string
	Number   int
	At       time.Time
	Duration time.Duration
	// Status is the HTTP status, 0 without an answer.
	Status int
	// Verdict is delivered, refused, not_sent or unknown.
	Verdict string
	Error   string
}

// States of an exception.
const (
	ExceptionOpen         = "open"
	ExceptionAcknowledged = "acknowledged"
	ExceptionExplained    = "explained"
	ExceptionResolved     = "resolved"
)

// Exception is something that needs a person.
type Exception struct {
	ID   string
	Kind string
	// Condition is unique: (subject, condition kind, object), or the entry or
	// message of a dead letter.
	Condition string
	// Subject is the id of the payment, order, entry or message it is about.
	Subject string
	// Reason is the condition's kind or a stable word.
	Reason          string
	State           string
	Account         string
	Event           string
	ProviderEventID string
	Payment         string
	Order           string
	Operation       string
	Message         string
	Urgency         string
	Amount          payment.Money
	// Detail is JSON for people: what was seen, what is proposed.
	Detail    []byte
	OpenedAt  time.Time
	UpdatedAt time.Time
	ClosedAt  time.Time
	// Closing says why it closed.
	Closing string
}

// AuditHead is the end of a subject's chain.
type AuditHead struct {
	Version int64
	Hash    []byte
}

// AuditRow is one row of a subject's chain.
type AuditRow struct {
	// ID is sortable, aud_….
	ID      string
	Subject string
	Version int64
	Action  string
	Actor   string
	Entry   string
	// Detail is JSON.
	Detail []byte
	At     time.Time
	Prev   []byte
	Hash   []byte
}

// IdempotencyKey is a stored answer of our own API.
type IdempotencyKey struct {
	// Principal is the caller, not the token.
	Principal   string
	Key         string
	Route       string
	Fingerprint []byte
	// State is running, done or expired (a tombstone).
	State     string
	Status    int
	Header    []byte
	Body      []byte
	Token     string
	LeaseAt   time.Time
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Token is an API token; only its hash is stored.
type Token struct {
	ID        string
	Name      string
	Role      string
	Hash      []byte
	CreatedAt time.Time
	LastUsed  time.Time
	RevokedAt time.Time
}

// Stats counts what is left to do.
type Stats struct {
	// Queues by name: items that are due, in work or postponed, waiting ones,
	// and the oldest instant of enqueueing of the former.
	Queues []QueueStats
	// OpenExceptions by kind.
	OpenExceptions map[string]int
	DeadEntries    int
	DeadMessages   int
}

// QueueStats are the figures of one queue.
type QueueStats struct {
	Queue   string
	Pending int
	Waiting int
	Oldest  time.Time
}
