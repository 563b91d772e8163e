package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// RegistrationBody is the merchant's own record of a payment to come.
type RegistrationBody struct {
	_                struct{}       `additionalProperties:"false"`
	Order            string         `json:"order" doc:"The merchant's own id of the order" maxLength:"512"`
	OrderTotal       *payment.Money `json:"order_total,omitzero" doc:"What the order costs; by default the amount"`
	Account          string         `json:"account" doc:"Name of the account in the configuration"`
	ConnectedAccount string         `json:"connected_account,omitzero" doc:"Scopes the payment to a connected account" maxLength:"512"`
	Amount           *payment.Money `json:"amount" doc:"What this payment is to bring"`
	AmountRule       string         `json:"amount_rule,omitzero" enum:"exact,up_to" doc:"Whether the amount must be met exactly; exact by default"`
	References       []string       `json:"references,omitzero" maxItems:"32" doc:"Names of the payment at the provider"`
	FulfillOn        string         `json:"fulfill_on,omitzero" enum:"captured,authorized" doc:"What earns the order; the account's rule by default"`
}

type paymentAnswer struct {
	Status   int
	Location string `header:"Location"`
	Body     apply.PaymentDocument
}

type paymentFilter struct {
	Paging
	Account string `query:"account"`
	Mode    string `query:"mode" enum:"live,test"`
	Order   string `query:"order"`
	Shop    string `query:"shop"`
	State   string `query:"state" enum:"expected,pending,authorized,partially_captured,captured,partially_refunded,refunded,canceled,failed"`
	Dispute string `query:"dispute" enum:"none,open,won,lost"`
	Adopted string `query:"adopted" enum:"true,false"`
}

func (a *API) registerPayments() {
	handle(a, call{
		id: "register-payment", method: http.MethodPost, path: "/v1/payments", tag: "payments", role: RoleOperate,
		status: http.StatusCreated, also: http.StatusOK, alsoSays: "The same again", summary: "Register a payment", body: RegistrationBody{}, codes: []Code{CodePaymentConflict},
		text: "Stores the merchant's own record, against which everything that the provider says is held. 201 for a new record; 200 for the same again, under whatever Idempotency-Key. Evidence that came before is applied now.",
	}, a.registerPayment)
	handle(a, call{
		id: "list-payments", method: http.MethodGet, path: "/v1/payments", tag: "payments", role: RoleRead, summary: "List payments",
	}, a.listPayments)
	handle(a, call{
		id: "get-payment", method: http.MethodGet, path: "/v1/payments/{id}", tag: "payments", role: RoleRead, summary: "Read a payment",
	}, a.getPayment)
	handle(a, call{
		id: "payment-timeline", method: http.MethodGet, path: "/v1/payments/{id}/timeline", tag: "payments", role: RoleRead,
		summary: "Read the history of a payment",
		text:    "Every piece of evidence about the payment, what it proved, what people did, and what was told to whom, oldest first.",
	}, a.paymentTimeline)
}

func (a *API) registerPayment(ctx context.Context, _ *struct{}) (*paymentAnswer, error) {
	b, err := decode[RegistrationBody](ctx, false)
	if err != nil {
		return nil, err
	}
	if b.Amount == nil {
		return nil, refused("/amount", "is missing")
	}
	done, err := a.deps.Applier.Register(ctx, apply.Registration{
		Order: b.Order, OrderTotal: b.OrderTotal, Account: b.Account, ConnectedAccount: b.ConnectedAccount, Amount: *b.Amount,
		Rule: payment.AmountRule(b.AmountRule), References: b.References, FulfillOn: payment.FulfillOn(b.FulfillOn),
	}, actorOf(ctx))
	if err != nil {
		return nil, fmt.Errorf("registering a payment: %w", err)
	}
	out := &paymentAnswer{
		Status: http.StatusOK, Location: "/v1/payments/" + done.Payment.ID, Body: apply.Document(done.Payment, done.Order.Fulfillment),
	}
	if done.Created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (a *API) listPayments(ctx context.Context, in *paymentFilter) (*list[apply.PaymentDocument], error) {
	documents, err := view(ctx, a.deps.Store, func(tx store.Reader) ([]apply.PaymentDocument, error) {
		rows, err := tx.Payments(ctx, in.filter("account", in.Account, "mode", in.Mode, "order", in.Order, "shop", in.Shop,
			"state", in.State, "dispute", in.Dispute, "adopted", in.Adopted))
		if err != nil {
			return nil, fmt.Errorf("listing payments: %w", err)
		}
		return documentsOf(ctx, tx, rows)
	})
	if err != nil {
		return nil, err
	}
	return page(documents, in.Limit, func(d apply.PaymentDocument) apply.PaymentDocument { return d }), nil
}

func (a *API) getPayment(ctx context.Context, in *byID) (*one[apply.PaymentDocument], error) {
	d, err := view(ctx, a.deps.Store, func(tx store.Reader) (apply.PaymentDocument, error) {
		p, err := tx.Payment(ctx, in.ID)
		if err != nil {
			return apply.PaymentDocument{}, fmt.Errorf("reading payment %s: %w", in.ID, err)
		}
		documents, err := documentsOf(ctx, tx, []store.Payment{p})
		if err != nil {
			return apply.PaymentDocument{}, err
		}
		return documents[0], nil
	})
	return &one[apply.PaymentDocument]{Status: http.StatusOK, Body: d}, err
}

// documentsOf renders payments, each with the fulfillment of its order.
func documentsOf(ctx context.Context, tx store.Reader, rows []store.Payment) ([]apply.PaymentDocument, error) {
	fulfillment := map[store.OrderKey]string{}
	documents := make([]apply.PaymentDocument, 0, len(rows))
	for _, p := range rows {
		if _, known := fulfillment[p.Order]; !known {
			word, err := fulfillmentOf(ctx, tx, p.Order)
			if err != nil {
				return nil, err
			}
			fulfillment[p.Order] = word
		}
		documents = append(documents, apply.Document(p, fulfillment[p.Order]))
	}
	return documents, nil
}
