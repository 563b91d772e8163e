package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// Refusals of a registration.
var (
	// ErrPaymentConflict: the order, a reference or the total is registered
	// with other content. The message names the fields, never their values.
	ErrPaymentConflict = errors.New("apply: conflicts with an earlier registration")
	// ErrInvalid: a field of the request does not fit; see FieldError.
	ErrInvalid = errors.New("apply: invalid request")
)

// FieldError names the field that does not fit, as in the outside interface.
type FieldError struct {
	Field, Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// Unwrap makes it an ErrInvalid.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// ConflictError names the fields that differ from the earlier registration.
type ConflictError struct {
	Payment string
	Fields  []string
}

func (e *ConflictError) Error() string {
	return "differs from the earlier registration in " + strings.Join(e.Fields, ", ")
}

// Unwrap makes it an ErrPaymentConflict.
func (e *ConflictError) Unwrap() error { return ErrPaymentConflict }

// Registration is the merchant's own record of a payment to come.
type Registration struct {
	Order string
	// OrderTotal is what the order costs; by default the amount.
	OrderTotal *payment.Money
	Account    string
	// ConnectedAccount scopes the payment to a connected account.
	ConnectedAccount string
	Amount           payment.Money
	Rule             payment.AmountRule
	References       []string
	// FulfillOn overrides the account's rule.
	FulfillOn payment.FulfillOn
}

// Registered is the answer to a registration.
type Registered struct {
	Payment store.Payment
	Order   store.Order
	// Created is false when the same registration was there already.
	Created bool
}

// Register stores the record, applies it to an adopted payment if one has its
// references, and wakes every entry that waits for it, in one transaction. The
// same registration again returns the stored payment; a different one for the
// same reference is a ConflictError.
func (a *Applier) Register(ctx context.Context, r Registration, actor string) (Registered, error) {
	acc, err := a.checkRegistration(&r)
	if err != nil {
		return Registered{}, err
	}
	var out Registered
	var raised *ConflictError
	err = a.within(ctx, store.TxOptions{}, func(tx store.Tx) error {
		raised = nil
		reg := &registering{step: a.newStep(tx, nil), r: r, account: acc, actor: actor}
		var err error
		out, err = reg.run(ctx)
		if errors.Is(err, errTotalRaised) {
			raised = &ConflictError{Fields: []string{"order_total"}}
			return nil
		}
		return err
	})
	if err == nil && raised != nil {
		return Registered{}, raised
	}
	return out, err
}

func (a *Applier) checkRegistration(r *Registration) (*Account, error) {
	acc := a.opt.Accounts[r.Account]
	switch {
	case r.Account == "":
		return nil, &FieldError{"account", "is missing"}
	case acc == nil:
		return nil, &FieldError{"account", "is not configured"}
	}
	if err := checkText("order", r.Order, true); err != nil {
		return nil, err
	}
	if err := checkText("connected_account", r.ConnectedAccount, false); err != nil {
		return nil, err
	}
	if err := checkMoney("amount", r.Amount); err != nil {
		return nil, err
	}
	if r.OrderTotal != nil {
		if err := checkMoney("order_total", *r.OrderTotal); err != nil {
			return nil, err
		}
		if r.OrderTotal.Currency != r.Amount.Currency {
			return nil, &FieldError{"order_total", "has another currency than the amount"}
		}
	}
	setDefault(&r.Rule, payment.RuleExact)
	if r.Rule != payment.RuleExact && r.Rule != payment.RuleUpTo {
		return nil, &FieldError{"amount_rule", "is not exact or up_to"}
	}
	setDefault(&r.FulfillOn, acc.FulfillOn)
	if r.FulfillOn != payment.OnCaptured && r.FulfillOn != payment.OnAuthorized {
		return nil, &FieldError{"fulfill_on", "is not captured or authorized"}
	}
	return acc, checkReferences(r)
}

func checkReferences(r *Registration) error {
	if len(r.References) > referencesMax {
		return &FieldError{"references", fmt.Sprintf("has more than %d entries", referencesMax)}
	}
	for _, ref := range r.References {
		if err := checkText("references", ref, true); err != nil {
			return err
		}
	}
	r.References = slices.Clone(r.References)
	slices.Sort(r.References)
	r.References = slices.Compact(r.References)
	return nil
}

func checkText(field, v string, required bool) error {
	switch {
	case v == "" && required:
		return &FieldError{field, "is missing"}
	case len(v) > nameBytesMax:
		return &FieldError{field, fmt.Sprintf("is longer than %d bytes", nameBytesMax)}
	case !utf8.ValidString(v):
		return &FieldError{field, "is not valid UTF-8"}
	case strings.ContainsFunc(v, unicode.IsControl):
		return &FieldError{field, "holds a control character"}
	}
	return nil
}

func checkMoney(field string, m payment.Money) error {
	if _, ok := payment.Exponent(m.Currency); !ok {
		return &FieldError{field, "has an unknown currency"}
	}
	if m.Value <= 0 {
		return &FieldError{field, "is not a positive integer"}
	}
	return nil
}

// errTotalRaised says that the order was fulfilled for another total: the
// exception is kept and the registration is refused.
var errTotalRaised = errors.New("apply: the total of a fulfilled order differs")

// registering is one run of a registration in its transaction.
type registering struct {
	*step
	r       Registration
	account *Account
	actor   string
}

func (g *registering) run(ctx context.Context) (Registered, error) {
	order, err := g.tx.UpsertOrder(ctx, g.newOrder(g.key()))
	if err != nil {
		return Registered{}, fmt.Errorf("locking order %s: %w", g.r.Order, err)
	}
	if err := g.lockOrders(ctx, []store.OrderKey{order.Key}); err != nil {
		return Registered{}, err
	}
	os := g.orders[order.Key]
	known, err := g.find(ctx, os)
	if err != nil {
		return Registered{}, err
	}
	if known != nil && !known.Adopted {
		return g.again(ctx, os, *known)
	}
	if err := g.setTotal(ctx, os); err != nil {
		return Registered{}, err
	}
	if err := g.place(ctx, known); err != nil {
		return Registered{}, err
	}
	return g.store(ctx, os)
}

func (g *registering) key() store.OrderKey {
	return store.OrderKey{Shop: g.account.Shop, ID: g.r.Order}
}

func (g *registering) scope() store.Scope {
	return store.Scope{Account: g.account.Name, Mode: string(g.account.Mode), Connected: g.r.ConnectedAccount}
}

func (g *registering) names() []store.ScopedName {
	names := make([]store.ScopedName, 0, len(g.r.References))
	for _, v := range g.r.References {
		names = append(names, store.ScopedName{Scope: g.scope(), Value: v})
	}
	return names
}

// find looks for the payment that the registration is about: the owner of its
// references, or without references the order's payment that has none either.
func (g *registering) find(ctx context.Context, os *orderStep) (*store.Payment, error) {
	if len(g.r.References) == 0 {
		for _, p := range os.payments {
			if p.ByOrder && p.Scope == g.scope() {
				return &p, nil
			}
		}
		for _, p := range os.payments {
			if p.Adopted && p.Scope == g.scope() {
				return &p, nil
			}
		}
		return nil, nil
	}
	owners, err := g.tx.Owners(ctx, g.names())
	if err != nil {
		return nil, fmt.Errorf("finding the owners of references: %w", err)
	}
	ids := slices.Sorted(maps.Values(owners))
	ids = slices.Compact(ids)
	switch len(ids) {
	case 0:
		return nil, nil
	case 1:
		p, err := g.tx.Payment(ctx, ids[0])
		if err != nil {
			return nil, fmt.Errorf("reading payment %s: %w", ids[0], err)
		}
		return &p, nil
	}
	return nil, &ConflictError{Payment: ids[0], Fields: []string{"references"}}
}

// again answers a registration of a payment that is registered: the same
// content returns it, and references that are new are added.
func (g *registering) again(ctx context.Context, os *orderStep, p store.Payment) (Registered, error) {
	var differ []string
	add := func(field string, differs bool) {
		if differs {
			differ = append(differ, field)
		}
	}
	add("order", p.Order != g.key())
	add("amount", p.Expected != g.r.Amount)
	add("amount_rule", p.Rule != g.r.Rule)
	add("fulfill_on", p.FulfillOn != g.r.FulfillOn)
	add("connected_account", p.Scope.Connected != g.r.ConnectedAccount)
	add("order_total", g.r.OrderTotal != nil && *g.r.OrderTotal != os.row.Total)
	if len(differ) > 0 {
		if p.Order == g.key() && slices.Equal(differ, []string{"order_total"}) && os.row.Fulfillment != store.FulfillNone {
			return Registered{}, g.totalRaised(ctx, os)
		}
		return Registered{}, &ConflictError{Payment: p.ID, Fields: differ}
	}
	var more []string
	for _, ref := range g.r.References {
		if !slices.Contains(p.References, ref) {
			more = append(more, ref)
		}
	}
	if len(more) == 0 {
		return Registered{Payment: p, Order: os.row}, nil
	}
	if err := g.place(ctx, &p); err != nil {
		return Registered{}, err
	}
	out, err := g.store(ctx, os)
	out.Created = false
	return out, err
}

// setTotal gives the order its total, or compares it with the one it has.
func (g *registering) setTotal(ctx context.Context, os *orderStep) error {
	total := g.r.Amount
	if g.r.OrderTotal != nil {
		total = *g.r.OrderTotal
	}
	switch {
	case os.row.Total.Currency == "":
		os.row.Total, os.changed = total, true
	case os.row.Total.Currency != g.r.Amount.Currency:
		return &ConflictError{Fields: []string{"currency"}}
	case g.r.OrderTotal != nil && os.row.Total != total && os.row.Fulfillment != store.FulfillNone:
		return g.totalRaised(ctx, os)
	case g.r.OrderTotal != nil && os.row.Total != total:
		return &ConflictError{Fields: []string{"order_total"}}
	}
	return nil
}

func (g *registering) totalRaised(ctx context.Context, os *orderStep) error {
	g.wanted = append(g.wanted, store.Exception{
		Kind: kindDiscrepancy, Condition: conditionKey(os.row.ID, reasonTotalRaised, ""), Subject: os.row.ID,
		Reason: reasonTotalRaised, Account: g.account.Name, Order: os.row.Key.ID, Amount: *g.r.OrderTotal,
		Detail: encode(entryDetail{Reason: "the order was registered with another total after it was fulfilled"}),
	})
	if err := g.except(ctx); err != nil {
		return err
	}
	if err := g.save(ctx); err != nil {
		return err
	}
	return errTotalRaised
}

// place locks or creates the payment and gives it the registered record.
func (g *registering) place(ctx context.Context, known *store.Payment) error {
	if known == nil {
		p := store.Payment{
			ID: g.a.opt.NewID("pay"), Scope: g.scope(), Order: g.key(), CreatedAt: g.now, UpdatedAt: g.now,
		}
		ps := &paymentStep{id: p.ID, row: p, account: g.account, fresh: true, adopted: true}
		g.payments[p.ID] = ps
		g.fill(ps)
		ps.row.View = payment.Fold(record(ps.row, ps.account), nil)
		ps.before = ps.row.View
		if err := g.tx.InsertPayment(ctx, ps.row); err != nil {
			return fmt.Errorf("registering payment %s: %w", p.ID, err)
		}
		return nil
	}
	rows, err := g.tx.LockPayments(ctx, []string{known.ID})
	if err != nil {
		return fmt.Errorf("locking payment %s: %w", known.ID, err)
	}
	if len(rows) != 1 || rows[0].Version != known.Version {
		return errAgain
	}
	row := rows[0]
	ps := &paymentStep{
		id: row.ID, row: row, before: row.View, account: g.account, fresh: true, audited: row.Audit.Version,
	}
	g.payments[row.ID] = ps
	g.fill(ps)
	return nil
}

func (g *registering) fill(ps *paymentStep) {
	p := &ps.row
	p.Order, p.Expected, p.Rule, p.FulfillOn, p.Adopted = g.key(), g.r.Amount, g.r.Rule, g.r.FulfillOn, false
	p.ByOrder = len(g.r.References) == 0 || p.ByOrder
	refs := append(slices.Clone(p.References), g.r.References...)
	slices.Sort(refs)
	p.References = slices.Compact(refs)
}

// store binds the names, derives everything that follows, and wakes what waits.
func (g *registering) store(ctx context.Context, os *orderStep) (Registered, error) {
	ps := g.payments[g.paymentIDs()[0]]
	var bindings []store.Binding
	for _, n := range g.names() {
		bindings = append(bindings, store.Binding{ScopedName: n, Payment: ps.id, Registered: true})
	}
	pseudo := store.ScopedName{Scope: g.scope(), Value: OrderName(g.r.Order)}
	if ps.row.ByOrder {
		bindings = append(bindings, store.Binding{ScopedName: pseudo})
	}
	owners, err := g.tx.Bind(ctx, bindings)
	if err != nil {
		return Registered{}, fmt.Errorf("binding references: %w", err)
	}
	for _, b := range bindings {
		if owners[b.ScopedName] != b.Payment {
			return Registered{}, errAgain
		}
	}
	g.auditBy(&ps.row.Audit, ps.id, "payment.registered", g.actor, "", registeredDetail{
		Order: g.r.Order, OrderTotal: os.row.Total, Amount: g.r.Amount, References: g.r.References,
	})
	for _, run := range []func(context.Context) error{g.load, g.derive, g.judge, g.except, g.save} {
		if err := run(ctx); err != nil {
			return Registered{}, err
		}
	}
	names := make([]store.ScopedName, 0, len(bindings))
	for _, b := range bindings {
		names = append(names, b.ScopedName)
	}
	if _, err := g.tx.WakeWaiting(ctx, names); err != nil {
		return Registered{}, fmt.Errorf("waking what waits: %w", err)
	}
	return Registered{Payment: ps.row, Order: os.row, Created: true}, nil
}
