package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// OrderDocument is an order over all its payments.
type OrderDocument struct {
	ID          string         `json:"id" doc:"The merchant's own id"`
	Shop        string         `json:"shop"`
	Total       payment.Money  `json:"total,omitzero" doc:"Missing while no payment of the order is registered"`
	Captured    payment.Money  `json:"captured,omitzero" doc:"Over all payments in the order's currency"`
	Refunded    payment.Money  `json:"refunded,omitzero"`
	Surplus     payment.Money  `json:"surplus,omitzero" doc:"Money beyond the total"`
	Fulfillment string         `json:"fulfillment" enum:"none,held,sent,revoked"`
	FulfilledAt time.Time      `json:"fulfilled_at,omitzero" doc:"When the merchant said that it has shipped"`
	Payments    []OrderPayment `json:"payments"`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`
}

// OrderPayment is a payment of an order.
type OrderPayment struct {
	ID    string        `json:"id"`
	State payment.State `json:"state"`
}

type orderFilter struct {
	Paging
	Shop        string `query:"shop" default:"default"`
	Fulfillment string `query:"fulfillment" enum:"none,held,sent,revoked"`
}

type orderID struct {
	ID   string `path:"id" maxLength:"512" doc:"The merchant's own id"`
	Shop string `query:"shop" default:"default"`
}

func (in *orderID) key() store.OrderKey { return store.OrderKey{Shop: in.Shop, ID: in.ID} }

func (a *API) registerOrders() {
	handle(a, call{
		id: "list-orders", method: http.MethodGet, path: "/v1/orders", tag: "orders", role: RoleRead, summary: "List the orders of a shop",
	}, a.listOrders)
	handle(a, call{
		id: "get-order", method: http.MethodGet, path: "/v1/orders/{id}", tag: "orders", role: RoleRead, summary: "Read an order",
	}, a.getOrder)
	handle(a, call{
		id: "order-fulfilled", method: http.MethodPost, path: "/v1/orders/{id}/fulfilled", tag: "orders", role: RoleOperate,
		status: http.StatusOK, summary: "Say that an order has shipped", body: emptyBody{}, bodyOptional: true,
		text: "From then on money that fails behind the order is an exception instead of `order.revoked`. Saying it again changes nothing.",
	}, a.orderFulfilled)
}

// emptyBody is an optional body without members.
type emptyBody struct {
	_ struct{} `additionalProperties:"false"`
}

func (a *API) listOrders(ctx context.Context, in *orderFilter) (*list[OrderDocument], error) {
	documents, err := view(ctx, a.deps.Store, func(tx store.Reader) ([]OrderDocument, error) {
		l := in.filter("shop", in.Shop, "fulfillment", in.Fulfillment)
		if l.After != "" {
			last, err := tx.Order(ctx, store.OrderKey{Shop: in.Shop, ID: l.After})
			if errors.Is(err, store.ErrNotFound) {
				return nil, problem(CodeInvalid, "starting_after names no order of the shop", ProblemField{"starting_after", "names no order of the shop"})
			}
			if err != nil {
				return nil, fmt.Errorf("reading order %s: %w", l.After, err)
			}
			l.After = last.ID
		}
		rows, err := tx.Orders(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("listing orders: %w", err)
		}
		return ordersOf(ctx, tx, rows)
	})
	if err != nil {
		return nil, err
	}
	return page(documents, in.Limit, func(d OrderDocument) OrderDocument { return d }), nil
}

func (a *API) getOrder(ctx context.Context, in *orderID) (*one[OrderDocument], error) {
	d, err := a.readOrder(ctx, in.key())
	return &one[OrderDocument]{Status: http.StatusOK, Body: d}, err
}

func (a *API) orderFulfilled(ctx context.Context, in *orderID) (*one[OrderDocument], error) {
	if err := nothing(ctx); err != nil {
		return nil, err
	}
	if _, err := a.deps.Applier.Ship(ctx, in.key(), actorOf(ctx)); err != nil {
		return nil, fmt.Errorf("noting that order %s has shipped: %w", in.ID, err)
	}
	return a.getOrder(ctx, in)
}

func (a *API) readOrder(ctx context.Context, key store.OrderKey) (OrderDocument, error) {
	return view(ctx, a.deps.Store, func(tx store.Reader) (OrderDocument, error) {
		row, err := tx.Order(ctx, key)
		if err != nil {
			return OrderDocument{}, fmt.Errorf("reading order %s: %w", key.ID, err)
		}
		documents, err := ordersOf(ctx, tx, []store.Order{row})
		if err != nil {
			return OrderDocument{}, err
		}
		return documents[0], nil
	})
}

func ordersOf(ctx context.Context, tx store.Reader, rows []store.Order) ([]OrderDocument, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	keys := make([]store.OrderKey, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key
	}
	payments, err := tx.PaymentsOfOrders(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading the payments of orders: %w", err)
	}
	byOrder := map[store.OrderKey][]store.Payment{}
	for _, p := range payments {
		byOrder[p.Order] = append(byOrder[p.Order], p)
	}
	documents := make([]OrderDocument, len(rows))
	for i := range rows {
		documents[i] = orderDocument(rows[i], byOrder[rows[i].Key])
	}
	return documents, nil
}

func orderDocument(o store.Order, payments []store.Payment) OrderDocument {
	d := OrderDocument{
		ID: o.Key.ID, Shop: o.Key.Shop, Total: o.Total, Fulfillment: o.Fulfillment, FulfilledAt: o.ShippedAt,
		Payments: make([]OrderPayment, 0, len(payments)), CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt,
	}
	parts := make([]payment.PartView, 0, len(payments))
	for _, p := range payments {
		d.Payments = append(d.Payments, OrderPayment{p.ID, p.View.State})
		parts = append(parts, payment.Part(payment.Record{Expected: p.Expected, Rule: p.Rule, FulfillOn: p.FulfillOn, Adopted: p.Adopted}, p.View))
	}
	if o.Total.Currency == "" {
		return d
	}
	money := func(value int64) payment.Money { return payment.Money{Value: value, Currency: o.Total.Currency} }
	d.Captured, d.Refunded = money(0), money(0)
	for _, p := range payments {
		if p.View.Currency == o.Total.Currency {
			d.Captured = sum(d.Captured, money(p.View.Totals.Captured))
			d.Refunded = sum(d.Refunded, money(p.View.Totals.Refunded))
		}
	}
	verdict := payment.JudgeOrder(payment.OrderState{
		Total: o.Total, Fulfillment: payment.Fulfillment(o.Fulfillment), Shipped: !o.ShippedAt.IsZero(),
	}, parts)
	d.Surplus = money(verdict.Surplus)
	return d
}

// sum adds two amounts of one currency; a sum that does not fit stays at the first.
func sum(a, b payment.Money) payment.Money {
	if total, err := a.Add(b); err == nil {
		return total
	}
	return a
}

func fulfillmentOf(ctx context.Context, tx store.Reader, key store.OrderKey) (string, error) {
	if key.ID == "" {
		return store.FulfillNone, nil
	}
	o, err := tx.Order(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return store.FulfillNone, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading order %s: %w", key.ID, err)
	}
	return o.Fulfillment, nil
}
