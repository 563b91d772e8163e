package apply

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// envelope is the body of every message that we compose.
type envelope struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Sequence  int64     `json:"sequence"`
	CreatedAt time.Time `json:"created_at"`
	Data      content   `json:"data"`
}

type content struct {
	Order     string          `json:"order,omitzero"`
	Shop      string          `json:"shop,omitzero"`
	Payment   PaymentDocument `json:"payment,omitzero"`
	Fact      factDocument    `json:"fact,omitzero"`
	Surplus   payment.Money   `json:"surplus,omitzero"`
	Exception jsontext.Value  `json:"exception,omitzero"`
}

// factDocument is a fact as merchants see it.
type factDocument struct {
	Kind      payment.Kind  `json:"kind"`
	Form      payment.Form  `json:"form,omitzero"`
	Object    string        `json:"object"`
	Parent    string        `json:"parent,omitzero"`
	Stage     payment.Stage `json:"stage,omitzero"`
	Round     int           `json:"round,omitzero"`
	Amount    payment.Money `json:"amount,omitzero"`
	Operation string        `json:"operation,omitzero"`
}

// draft is a message that is rendered when the step's rows are final, because
// its body holds the payment's snapshot.
type draft struct {
	payment     *paymentStep
	kind, cause string
	fact        *payment.Fact
	surplus     payment.Money
}

// tell tells every destination that subscribes to the type, once for the cause.
func (s *step) tell(ps *paymentStep, kind, cause string, fact *payment.Fact) {
	if len(s.a.opt.Destinations(kind)) > 0 {
		s.drafts = append(s.drafts, draft{payment: ps, kind: kind, cause: cause, fact: fact})
	}
}

// render turns the drafts into messages. The sequence is the payment's; each
// message of a payment has its own, the same at every destination.
func (s *step) render() {
	for _, d := range s.drafts {
		ps := d.payment
		ps.row.Sequence++
		c := content{Order: ps.row.Order.ID, Shop: ps.row.Order.Shop, Payment: s.document(ps), Surplus: d.surplus}
		if d.fact != nil {
			c.Fact = factDocument{
				Kind: d.fact.Kind, Form: d.fact.Form, Object: d.fact.Object, Parent: d.fact.Parent, Stage: d.fact.Stage,
				Round: d.fact.Round, Amount: d.fact.Amount, Operation: d.fact.Operation,
			}
		}
		for _, destination := range s.a.opt.Destinations(d.kind) {
			s.changes.Messages = append(s.changes.Messages, s.a.message(store.Message{
				Destination: destination, Type: d.kind, Account: ps.row.Scope.Account, Payment: ps.id,
				Order: ps.row.Order.ID, Cause: d.cause, Lane: ps.id, Sequence: ps.row.Sequence, CreatedAt: s.now,
			}, c))
		}
	}
}

// message gives the draft its id and renders its body.
func (a *Applier) message(m store.Message, c content) store.Message {
	m.ID, m.State, m.NextAt = a.opt.NewID(id.Message), store.MessagePending, m.CreatedAt
	body, err := json.Marshal(envelope{ID: m.ID, Type: m.Type, Sequence: m.Sequence, CreatedAt: m.CreatedAt, Data: c}, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("apply: impossible: message %s does not encode: %v", m.Type, err))
	}
	m.Body = body
	return m
}

func (s *step) document(ps *paymentStep) PaymentDocument {
	fulfillment := store.FulfillNone
	if os := s.orders[ps.row.Order]; os != nil {
		fulfillment = os.row.Fulfillment
	}
	return Document(ps.row, fulfillment)
}

// tellException tells of an exception that opened.
func (s *step) tellException(e store.Exception) {
	s.changes.Messages = append(s.changes.Messages, s.a.Notices(e)...)
}

// Notices renders the messages that tell of an exception that opens, one for
// each destination that subscribes. The caller stores them with the exception.
func (a *Applier) Notices(e store.Exception) []store.Message {
	var notices []store.Message
	for _, destination := range a.opt.Destinations(MessageExceptionOpened) {
		notices = append(notices, a.message(store.Message{
			Destination: destination, Type: MessageExceptionOpened, Account: e.Account, Payment: e.Payment, Order: e.Order,
			Cause: fmt.Sprintf("%s|opened|%d", e.ID, e.OpenedAt.UnixMicro()), Lane: e.ID, Sequence: e.OpenedAt.UnixMicro(),
			CreatedAt: e.OpenedAt,
		}, content{Order: e.Order, Exception: encode(exceptionDocument{
			ID: e.ID, Kind: e.Kind, Reason: e.Reason, Urgency: e.Urgency, Account: e.Account, Event: e.Event,
			ProviderEventID: e.ProviderEventID, Payment: e.Payment, Order: e.Order, Amount: e.Amount,
			Detail: jsontext.Value(e.Detail), OpenedAt: e.OpenedAt,
		})}))
	}
	return notices
}

type exceptionDocument struct {
	ID              string         `json:"id"`
	Kind            string         `json:"kind"`
	Reason          string         `json:"reason"`
	Urgency         string         `json:"urgency"`
	Account         string         `json:"account,omitzero"`
	Event           string         `json:"event,omitzero"`
	ProviderEventID string         `json:"provider_event_id,omitzero"`
	Payment         string         `json:"payment,omitzero"`
	Order           string         `json:"order,omitzero"`
	Amount          payment.Money  `json:"amount,omitzero"`
	Detail          jsontext.Value `json:"detail,omitzero"`
	OpenedAt        time.Time      `json:"opened_at"`
}

// Forward renders the messages that hand the provider's original bytes to the
// destinations that subscribe to event.*. It is called in the transaction that
// stores the entry, so that each verified, deduplicated event is told once,
// whatever becomes of it.
func (a *Applier) Forward(e store.EntryWithBody, lane string) []store.Message {
	if e.Source != store.SourceWebhook || e.VariantOf != "" || e.Type == "" {
		return nil
	}
	kind := "event." + e.Type
	var messages []store.Message
	for _, destination := range a.opt.Destinations(kind) {
		now := a.opt.Now().UTC().Truncate(time.Microsecond)
		messages = append(messages, store.Message{
			ID: a.opt.NewID(id.Message), Destination: destination, Type: kind, Account: e.Scope.Account,
			Cause: e.ID + "|event", Lane: lane, Body: e.Bytes, Header: e.Header, State: store.MessagePending,
			CreatedAt: now, NextAt: now,
		})
	}
	return messages
}
