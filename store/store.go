package store

import (
	"context"
	"time"
)

// Store is a ledger. It is safe for concurrent use.
type Store interface {
	// InTx runs fn in one read-write transaction and commits it. Serialization
	// failures, deadlocks and a busy database are retried inside with jitter, so
	// fn may run several times and must not keep effects of a failed run. The
	// commit runs under a context that the caller's hang-up cannot cancel.
	// Errors wrap a sentinel of this package where one fits; fn's own error is
	// returned as it is after the rollback.
	InTx(ctx context.Context, opt TxOptions, fn func(Tx) error) error
	// View runs fn in one read-only transaction with a stable snapshot.
	View(ctx context.Context, fn func(Reader) error) error
	// Claim takes up to req.Lanes lanes of a queue and their due items, commits
	// the claim, and returns them under one token. No lane is ever held twice.
	// An item that still carries the token of a lapsed claim is returned Suspect.
	Claim(ctx context.Context, req ClaimRequest) (Claim, error)
	// Epoch grows whenever a connection had to be opened anew after a failure;
	// caches of committed state are emptied when it changes.
	Epoch() uint64
	// Wake returns a channel that receives when work may have appeared in the
	// queue. It is a hint (LISTEN/NOTIFY, in-process signal): polling is the guarantee.
	Wake(queue string) <-chan struct{}
	// Check reports every setting that weakens durability, and ErrSchema or
	// ErrUnavailable.
	Check(ctx context.Context) ([]Finding, error)
	// Now is the ledger's clock.
	Now(ctx context.Context) (time.Time, error)
	// Migrations.
	Migrator
	// Stats counts what is left to do, for metrics. Bounded work.
	Stats(ctx context.Context) (Stats, error)
	Close() error
}

// TxOptions tune one transaction.
type TxOptions struct {
	// LockTimeout bounds the wait for one lock; zero is the store's default
	// (10 s). When it runs out, InTx returns ErrBusy without a retry if
	// NoRetry is set.
	LockTimeout time.Duration
	// NoRetry returns the first retryable failure instead of retrying.
	NoRetry bool
	// Timeout bounds the whole transaction on the server; zero is the default (30 s).
	Timeout time.Duration
}

// Finding is one remark of Check.
type Finding struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// Migration is one step of the schema.
type Migration struct {
	Version   int64     `json:"version"`
	Name      string    `json:"name"`
	Applied   bool      `json:"applied"`
	AppliedAt time.Time `json:"applied_at,omitzero"`
	// SQL is the text that would run.
	SQL string `json:"sql,omitzero"`
}

// Migrator brings the schema up. Migrations are embedded; several processes
// may call MigrateUp at once.
type Migrator interface {
	MigrateUp(ctx context.Context) ([]Migration, error)
	Migrations(ctx context.Context) ([]Migration, error)
}

// ClaimRequest asks for work.
type ClaimRequest struct {
	Queue string
	// Lanes is the largest number of lanes to take, PerLane of items in each.
	Lanes, PerLane int
	// Lease is how long nobody else gets these lanes, by the ledger's clock.
	Lease time.Duration
	// Ordered keeps strict order in each lane: its items are taken from the
	// oldest on and only up to the first that is not due, so that nothing
	// overtakes an item that was postponed. A lane whose oldest item is not due
	// is not taken; its next look is set to that item's time. Oldest is by the
	// order of enqueueing, within one call by the order of the call.
	Ordered bool
}

// Claim is a set of leased lanes and their due items, oldest first in a lane.
type Claim struct {
	Token string
	Items []ClaimedItem
}

// ClaimedItem is one piece of work.
type ClaimedItem struct {
	ID   string
	Lane string
	// Attempts counts the solo runs that were begun (see Tx.CountAttempt).
	Attempts int
	// Suspect says that a claim that held this item lapsed without a result.
	Suspect bool
	// Waiting says that the item was stored as waiting and its deadline has come.
	Waiting bool
	// LastError is the message of the last failure.
	LastError string
	// EnqueuedAt is when the item was enqueued.
	EnqueuedAt time.Time
}

// Names of queues. Messages have one queue for each destination.
const (
	QueueInbox = "inbox"
	// QueueQuiet holds payments whose quiet conditions are to be judged.
	QueueQuiet = "quiet"
)

// QueueOutbox is the queue of a destination's messages.
func QueueOutbox(destination string) string { return "outbox:" + destination }

// Reader reads the ledger. All lists are newest first by id.
type Reader interface {
	EntryReader
	PaymentReader
	MessageReader
	ExceptionReader
	AuditReader
	IdempotencyReader
	TokenReader
	// Setting returns a small value stored by SetSetting, ErrNotFound if none.
	Setting(ctx context.Context, key string) (string, error)
}

// Tx reads and writes in one transaction. After an error of a method the
// transaction is only good for rollback, unless the method says otherwise.
type Tx interface {
	Reader
	EntryWriter
	WorkWriter
	PaymentWriter
	MessageWriter
	ExceptionWriter
	AuditWriter
	IdempotencyWriter
	TokenWriter
	SetSetting(ctx context.Context, key, value string) error
}

// List selects rows of a list by equality.
type List struct {
	// Where maps a column of the outside interface to the wanted value; the
	// backend refuses unknown columns with an error.
	Where map[string]string
	// After is the id of the last item of the page before; empty for the first.
	After string
	// Limit is 1 to 101.
	Limit int
}

// EntryReader reads the inbox.
type EntryReader interface {
	// Entry returns one entry with its status.
	Entry(ctx context.Context, id string) (EntryStatus, error)
	// EntryByIdentity finds an entry by what makes it unique.
	EntryByIdentity(ctx context.Context, s Scope, identity string) (EntryStatus, error)
	// Body returns the bytes as received and the headers that were kept.
	Body(ctx context.Context, id string) (Body, error)
	// Bodies returns entries with their bodies for the ids, in no order.
	Bodies(ctx context.Context, ids []string) ([]EntryWithBody, error)
	// Entries lists by account, mode, type, state, outcome, payment, order,
	// provider_event_id, source, variant_of.
	Entries(ctx context.Context, l List) ([]EntryStatus, error)
	// WaitingUnder returns the ids of up to limit entries that are filed under
	// the value in any mode and connected account of the account, newest first.
	WaitingUnder(ctx context.Context, account, value string, limit int) ([]string, error)
}

// EntryWriter writes the inbox.
type EntryWriter interface {
	// InsertEntries stores entries with their bodies, each once by (account,
	// mode, identity), and says of each whether it was new or who was there
	// first. A conflict fails neither the transaction nor its neighbors; two
	// entries of one identity in the same call are one new and one duplicate.
	// Results are in the order of the argument.
	InsertEntries(ctx context.Context, entries []EntryWithBody) ([]Inserted, error)
	// CountDeliveries adds to the count of deliveries of entries.
	CountDeliveries(ctx context.Context, counts map[string]int, at time.Time) error
	// Finish records the final state of entries; a second finish of one entry
	// replaces the first (a redrive of a dead entry).
	Finish(ctx context.Context, results []Result) error
	// Reopen removes the final state of a dead entry so that it can be worked on again.
	Reopen(ctx context.Context, id string) error
}

// WorkWriter changes the queues. All methods lock lanes in sorted order, after
// orders, payments and names.
type WorkWriter interface {
	// Enqueue adds work; an item that is queued already is made due no later
	// than asked. Lanes are upserted first. ErrConflict if it is queued in
	// another lane, where somebody else may be working on it.
	Enqueue(ctx context.Context, items []Work) error
	// CountAttempt counts the beginning of a solo run of the items under the token.
	CountAttempt(ctx context.Context, queue, token string, ids []string) error
	// Complete removes finished items. ErrLeaseLost if one is no longer held
	// under the token.
	Complete(ctx context.Context, queue, token string, ids []string) error
	// Postpone puts items back, due after their delay. ErrLeaseLost as above.
	Postpone(ctx context.Context, queue, token string, items []Postponed) error
	// Release ends the token's leases of all lanes it still holds; a lane is due
	// when its next item is. Items of these lanes that still carry the token are
	// handed back unharmed (not suspect).
	Release(ctx context.Context, queue, token string) error
	// Extend prolongs the token's leases. ErrLeaseLost if any has lapsed and
	// was taken.
	Extend(ctx context.Context, queue, token string, lease time.Duration) error
	// Wait files an entry under the names that it waits for. The names must
	// have been locked by Bind in this transaction and found without an owner.
	Wait(ctx context.Context, waits []Waiting) error
	// WakeWaiting makes everything that waits under the names due now and
	// returns the ids.
	WakeWaiting(ctx context.Context, names []ScopedName) ([]string, error)
	// Unwait removes the filing of entries that wait no longer.
	Unwait(ctx context.Context, ids []string) error
}

// PaymentReader reads payments, orders, names, facts and effects.
type PaymentReader interface {
	Payment(ctx context.Context, id string) (Payment, error)
	// Payments lists by account, mode, order, shop, state, dispute, adopted.
	Payments(ctx context.Context, l List) ([]Payment, error)
	Order(ctx context.Context, k OrderKey) (Order, error)
	// Orders lists by shop, order, fulfillment. The id of the cursor is Order.ID.
	Orders(ctx context.Context, l List) ([]Order, error)
	// OrderByID returns the order with the internal id.
	OrderByID(ctx context.Context, id string) (Order, error)
	// OrderKeysOf returns the orders of the payments that exist, without locks.
	OrderKeysOf(ctx context.Context, payments []string) (map[string]OrderKey, error)
	// PaymentsOfOrders returns all payments of the orders, sorted by id.
	PaymentsOfOrders(ctx context.Context, keys []OrderKey) ([]Payment, error)
	// Owners returns the payments that own the names, without locks. Names
	// without an owner are left out.
	Owners(ctx context.Context, names []ScopedName) (map[ScopedName]string, error)
	// OwnersAnywhere returns the payments that own the values in any mode and
	// connected account of the account (for evidence of a foreign scope).
	OwnersAnywhere(ctx context.Context, account string, values []string) (map[string][]string, error)
	// Names returns the names of a payment, sorted.
	Names(ctx context.Context, payment string) ([]Name, error)
	// Facts returns the facts of the payments in order of storage.
	Facts(ctx context.Context, payments []string) ([]Fact, error)
	// Effects returns the effects of the payments.
	Effects(ctx context.Context, payments []string) ([]Effect, error)
}

// PaymentWriter changes payments. Locks are taken in this order: orders, then
// payments, then names, each sorted in one call.
type PaymentWriter interface {
	// LockOrders locks and returns the orders that exist.
	LockOrders(ctx context.Context, keys []OrderKey) ([]Order, error)
	// UpsertOrder inserts the order if it is not there, and locks and returns it.
	UpsertOrder(ctx context.Context, o Order) (Order, error)
	// LockPayments locks and returns the payments that exist.
	LockPayments(ctx context.Context, ids []string) ([]Payment, error)
	InsertPayment(ctx context.Context, p Payment) error
	// Bind upserts the names in sorted order, which locks them, gives each that
	// has no owner the wanted one (an empty Payment only locks), and returns the
	// owner of each after that ("" for none).
	Bind(ctx context.Context, bindings []Binding) (map[ScopedName]string, error)
	// Save writes everything that one step of apply derived, set-wise.
	Save(ctx context.Context, c Changes) error
}

// MessageReader reads the outbox.
type MessageReader interface {
	Message(ctx context.Context, id string) (Message, error)
	// Messages lists by destination, type, state, payment, order.
	Messages(ctx context.Context, l List) ([]Message, error)
	// MessagesByID returns the messages with their bodies, in no order.
	MessagesByID(ctx context.Context, ids []string) ([]Message, error)
	// Attempts returns the attempts of a message, oldest first.
	Attempts(ctx context.Context, message string) ([]Attempt, error)
}

// MessageWriter changes the outbox.
type MessageWriter interface {
	// RecordAttempts appends attempts and sets the messages' states.
	RecordAttempts(ctx context.Context, attempts []Attempt, states map[string]MessageState) error
	// InsertMessages adds messages outside of Save (a test message, an
	// exception's notice). Their work is enqueued by the caller.
	InsertMessages(ctx context.Context, m []Message) error
}

// ExceptionReader reads exceptions.
type ExceptionReader interface {
	Exception(ctx context.Context, id string) (Exception, error)
	// Exceptions lists by kind, state, account, event, provider_event_id,
	// payment, order, operation, message.
	Exceptions(ctx context.Context, l List) ([]Exception, error)
	// OpenConditions returns the exceptions, in any state, of the subjects' conditions.
	ConditionsOf(ctx context.Context, subjects []string) ([]Exception, error)
}

// ExceptionWriter changes exceptions.
type ExceptionWriter interface {
	// PutExceptions inserts exceptions or, where one with the same Condition
	// exists, updates its state, detail and times.
	PutExceptions(ctx context.Context, e []Exception) error
}

// AuditReader reads the audit.
type AuditReader interface {
	// Audit lists by subject, action, actor, newest first; the cursor is AuditRow.ID.
	Audit(ctx context.Context, l List) ([]AuditRow, error)
	// AuditChain returns the whole chain of a subject, oldest first.
	AuditChain(ctx context.Context, subject string) ([]AuditRow, error)
}

// AuditWriter appends to the audit.
type AuditWriter interface {
	// AppendAudit chains rows to the heads of their subjects, which it locks
	// (sorted). Rows of payments and orders are appended by Save instead.
	AppendAudit(ctx context.Context, rows []AuditRow) error
}

// IdempotencyReader reads stored answers.
type IdempotencyReader interface {
	IdempotencyKey(ctx context.Context, principal, key string) (IdempotencyKey, error)
}

// IdempotencyWriter keeps stored answers.
type IdempotencyWriter interface {
	// BeginKey inserts the key if it is new. Otherwise it locks and returns the
	// stored row and false.
	BeginKey(ctx context.Context, k IdempotencyKey) (IdempotencyKey, bool, error)
	// PutKey replaces the row of the key.
	PutKey(ctx context.Context, k IdempotencyKey) error
	// DeleteKey removes the key (a 4xx of our own API is not stored).
	DeleteKey(ctx context.Context, principal, key string) error
	// SweepKeys removes up to limit keys that expired before the instant.
	SweepKeys(ctx context.Context, before time.Time, limit int) (int, error)
}

// TokenReader reads API tokens.
type TokenReader interface {
	TokenByHash(ctx context.Context, hash []byte) (Token, error)
	Tokens(ctx context.Context, l List) ([]Token, error)
}

// TokenWriter keeps API tokens.
type TokenWriter interface {
	InsertToken(ctx context.Context, t Token) error
	RevokeToken(ctx context.Context, id string, at time.Time) error
	TouchToken(ctx context.Context, id string, at time.Time) error
}
