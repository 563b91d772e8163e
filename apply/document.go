package apply

import (
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// PaymentDocument is a payment as merchants see it, in the API and as the
// snapshot in messages. Every amount is money in ISO 4217 minor units.
type PaymentDocument struct {
	ID               string                    `json:"id"`
	Order            string                    `json:"order,omitzero"`
	Shop             string                    `json:"shop,omitzero"`
	Account          string                    `json:"account"`
	Mode             string                    `json:"mode"`
	ConnectedAccount string                    `json:"connected_account,omitzero"`
	Amount           payment.Money             `json:"amount,omitzero"`
	AmountRule       payment.AmountRule        `json:"amount_rule"`
	FulfillOn        payment.FulfillOn         `json:"fulfill_on"`
	References       []string                  `json:"references"`
	Adopted          bool                      `json:"adopted"`
	State            payment.State             `json:"state"`
	Dispute          payment.DisputeState      `json:"dispute"`
	Totals           TotalsDocument            `json:"totals"`
	OtherTotals      map[string]TotalsDocument `json:"other_totals,omitzero"`
	Fulfillment      string                    `json:"fulfillment"`
	Conditions       []payment.Condition       `json:"conditions,omitzero"`
	Version          int64                     `json:"version"`
	CreatedAt        time.Time                 `json:"created_at"`
	UpdatedAt        time.Time                 `json:"updated_at"`
}

// TotalsDocument is the totals of a payment, each as money.
type TotalsDocument struct {
	Authorized     payment.Money `json:"authorized"`
	Captured       payment.Money `json:"captured"`
	Refunded       payment.Money `json:"refunded"`
	Disputed       payment.Money `json:"disputed"`
	Lost           payment.Money `json:"lost"`
	Refundable     payment.Money `json:"refundable"`
	Released       payment.Money `json:"released"`
	PendingRefunds payment.Money `json:"pending_refunds"`
	Reserved       payment.Money `json:"reserved"`
	Unmatched      payment.Money `json:"unmatched"`
}

// Document renders a payment with its order's fulfillment.
func Document(p store.Payment, fulfillment string) PaymentDocument {
	v := p.View
	d := PaymentDocument{
		ID: p.ID, Order: p.Order.ID, Shop: p.Order.Shop, Account: p.Scope.Account, Mode: p.Scope.Mode,
		ConnectedAccount: p.Scope.Connected, Amount: p.Expected, AmountRule: p.Rule, FulfillOn: p.FulfillOn,
		References: p.References, Adopted: p.Adopted, State: v.State, Dispute: v.Dispute,
		Totals: totals(v.Totals, v.Currency), Fulfillment: fulfillment, Conditions: v.Conditions,
		Version: p.Version, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
	if d.References == nil {
		d.References = []string{}
	}
	if len(v.OtherTotals) > 0 {
		d.OtherTotals = make(map[string]TotalsDocument, len(v.OtherTotals))
		for currency, t := range v.OtherTotals {
			d.OtherTotals[currency] = totals(t, currency)
		}
	}
	return d
}

func totals(t payment.Totals, currency string) TotalsDocument {
	m := func(value int64) payment.Money { return payment.Money{Value: value, Currency: currency} }
	return TotalsDocument{
		Authorized: m(t.Authorized), Captured: m(t.Captured), Refunded: m(t.Refunded), Disputed: m(t.Disputed),
		Lost: m(t.Lost), Refundable: m(t.Refundable), Released: m(t.Released), PendingRefunds: m(t.PendingRefunds),
		Reserved: m(t.Reserved), Unmatched: m(t.Unmatched),
	}
}
