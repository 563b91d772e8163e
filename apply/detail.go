package apply

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// The shapes of details in audit rows and exceptions. They hold identities and
// results, never payloads.
type (
	evidenceDetail struct {
		Source          string               `json:"source"`
		Type            string               `json:"type"`
		ProviderEventID string               `json:"provider_event_id,omitzero"`
		Facts           []string             `json:"facts,omitzero"`
		Version         int64                `json:"version"`
		From            payment.State        `json:"from"`
		To              payment.State        `json:"to"`
		Dispute         payment.DisputeState `json:"dispute"`
	}
	adoptedDetail struct {
		Order string `json:"order,omitzero"`
	}
	fulfillmentDetail struct {
		From           string `json:"from"`
		To             string `json:"to"`
		Payment        string `json:"payment,omitzero"`
		PaymentVersion int64  `json:"payment_version,omitzero"`
	}
	registeredDetail struct {
		Order      string        `json:"order"`
		OrderTotal payment.Money `json:"order_total"`
		Amount     payment.Money `json:"amount"`
		References []string      `json:"references,omitzero"`
	}
	redriveDetail struct {
		Reason string `json:"reason"`
	}
	conditionDetail struct {
		Condition string         `json:"condition"`
		Object    string         `json:"object,omitzero"`
		Facts     []string       `json:"facts,omitzero"`
		Expected  payment.Money  `json:"expected,omitzero"`
		Totals    payment.Totals `json:"totals"`
		Currency  string         `json:"currency,omitzero"`
	}
	entryDetail struct {
		Reason   string   `json:"reason"`
		Payments []string `json:"payments,omitzero"`
		Type     string   `json:"type,omitzero"`
		Names    []string `json:"names,omitzero"`
		Attempts int      `json:"attempts,omitzero"`
	}
	surplusDetail struct {
		Total    payment.Money  `json:"total"`
		Surplus  payment.Money  `json:"surplus"`
		Proposed proposedRefund `json:"proposed_refund,omitzero"`
	}
	proposedRefund struct {
		Payment string        `json:"payment"`
		Amount  payment.Money `json:"amount"`
	}
)

// encode writes a detail as deterministic JSON.
func encode(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("apply: impossible: a detail does not encode: %v", err))
	}
	return b
}

// actorSystem is the actor of everything that evidence causes by itself.
const actorSystem = "system"

// audit chains a row to a payment's or order's head and stores it with the step.
func (s *step) audit(head *store.AuditHead, subject, action, entry string, detail any) {
	s.auditBy(head, subject, action, actorSystem, entry, detail)
}

func (s *step) auditBy(head *store.AuditHead, subject, action, actor, entry string, detail any) {
	row := store.AuditRow{
		ID: s.a.opt.NewID("aud"), Subject: subject, Action: action, Actor: actor, Entry: entry,
		Detail: encode(detail), At: s.now,
	}
	*head = store.Chain(*head, &row)
	s.changes.Audit = append(s.changes.Audit, row)
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }
