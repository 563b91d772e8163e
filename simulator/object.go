package simulator

import "time"

// object is a JSON object as the API shows it.
type object = map[string]any

// The states of the objects, as the contract names them.
const (
	intentRequiresMethod  = "requires_payment_method"
	intentRequiresConfirm = "requires_confirmation"
	intentRequiresAction  = "requires_action"
	intentProcessing      = "processing"
	intentRequiresCapture = "requires_capture"
	intentCanceled        = "canceled"
	intentSucceeded       = "succeeded"

	statusPending   = "pending"
	statusSucceeded = "succeeded"
	statusFailed    = "failed"
	statusCanceled  = "canceled"

	disputeWarning       = "warning_needs_response"
	disputeWarningClosed = "warning_closed"
	disputeNeeds         = "needs_response"
	disputeReview        = "under_review"
	disputeWon           = "won"
	disputeLost          = "lost"
)

// base is what every object has.
type base struct {
	id      string
	account string // of a connected account, or empty
	created time.Time
}

type intent struct {
	base
	amount, capturable, received int64
	currency, status             string
	manual, async                bool
	method, customer             string
	description                  string
	metadata                     map[string]string
	latest                       *charge
	canceledAt                   time.Time
	cancelReason                 string
	lastError                    object
}

type charge struct {
	base
	intent             *intent
	amount             int64
	captured, refunded int64 // refunded: by refunds that are pending or succeeded
	released           int64
	settled            bool   // a final capture has happened
	status             string // succeeded pending failed
	failure            string
	txn                string
	disputed           bool
	atBank             int // disputes that hold money of it now
	expired            bool
}

type refund struct {
	base
	charge          *charge
	amount          int64
	status          string
	reason, failure string
	metadata        map[string]string
	txn, failureTxn string
}

type dispute struct {
	base
	charge         *charge
	amount         int64
	status, reason string
	withdrawn      bool // the money is with the bank now
	txns           []string
}

func (d *dispute) closed() bool {
	return d.status == disputeWon || d.status == disputeLost || d.status == disputeWarningClosed
}

type session struct {
	base
	intent    *intent
	amount    int64
	currency  string
	status    string // open complete expired
	payment   string // paid unpaid
	reference string
	metadata  map[string]string
}

type invoice struct {
	base
	intent   *intent
	amount   int64
	payment  string // inpay_…
	metadata map[string]string
}

// txn is a balance transaction: what a movement did to the account's balance.
type txn struct {
	base
	amount, fee      int64 // amount is signed
	currency         string
	typ, category    string
	source, describe string
}

// table keeps objects in the order of their making.
type table[T any] struct {
	rows  []T
	index map[string]int
}

func (t *table[T]) add(id string, row T) {
	if t.index == nil {
		t.index = map[string]int{}
	}
	t.index[id] = len(t.rows)
	t.rows = append(t.rows, row)
}

func (t *table[T]) get(id string) (T, bool) {
	i, ok := t.index[id]
	if !ok {
		var zero T
		return zero, false
	}
	return t.rows[i], true
}
