package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

// encode renders what has no columns of its own because nothing selects by it.
func encode(v any) (string, error) {
	raw, err := json.Marshal(v, json.Deterministic(true))
	return string(raw), err
}

// paymentRow is a payment with its documents rendered.
type paymentRow struct {
	*store.Payment
	reference, view string
}

func paymentRows(payments []store.Payment) ([]paymentRow, error) {
	list := make([]paymentRow, len(payments))
	for i := range payments {
		p := &payments[i]
		reference, err := encode(p.References)
		if err != nil {
			return nil, fmt.Errorf("rendering the references of payment %s: %w", p.ID, err)
		}
		view, err := encode(&p.View)
		if err != nil {
			return nil, fmt.Errorf("rendering the view of payment %s: %w", p.ID, err)
		}
		list[i] = paymentRow{p, reference, view}
	}
	return list, nil
}

var paymentColumns = columns[paymentRow]{
	text("id", func(p *paymentRow) string { return p.ID }),
	text("account", func(p *paymentRow) string { return p.Scope.Account }),
	text("mode", func(p *paymentRow) string { return p.Scope.Mode }),
	text("connected", func(p *paymentRow) string { return p.Scope.Connected }),
	text("shop", func(p *paymentRow) string { return p.Order.Shop }),
	text("order_id", func(p *paymentRow) string { return p.Order.ID }),
	whole("expected_value", func(p *paymentRow) int64 { return p.Expected.Value }),
	text("expected_currency", func(p *paymentRow) string { return p.Expected.Currency }),
	text("rule", func(p *paymentRow) string { return string(p.Rule) }),
	text("fulfill_on", func(p *paymentRow) string { return string(p.FulfillOn) }),
	flag("adopted", func(p *paymentRow) bool { return p.Adopted }),
	flag("by_order", func(p *paymentRow) bool { return p.ByOrder }),
	text("reference", func(p *paymentRow) string { return p.reference }),
	text("state", func(p *paymentRow) string { return string(p.View.State) }),
	text("dispute", func(p *paymentRow) string { return string(p.View.Dispute) }),
	text("view", func(p *paymentRow) string { return p.view }),
	whole("version", func(p *paymentRow) int64 { return p.Version }),
	whole("sequence", func(p *paymentRow) int64 { return p.Sequence }),
	instant("newest_fact_at", func(p *paymentRow) time.Time { return p.NewestFactAt }),
	whole("audit_version", func(p *paymentRow) int64 { return p.Audit.Version }),
	octets("audit_hash", func(p *paymentRow) []byte { return p.Audit.Hash }),
	instant("created_at", func(p *paymentRow) time.Time { return p.CreatedAt }),
	instant("updated_at", func(p *paymentRow) time.Time { return p.UpdatedAt }),
}

var (
	insertPayments = paymentColumns.insert("payment", "")
	updatePayments = `UPDATE payment p SET ` + paymentColumns.assign("u", "id", "account", "mode", "connected", "created_at") +
		` FROM ` + paymentColumns.rows(1) + ` WHERE p.id = u.id`
)

const paymentSelect = `SELECT p.id, p.account, p.mode, p.connected, p.shop, p.order_id, p.expected_value, p.expected_currency,
    p.rule, p.fulfill_on, p.adopted, p.by_order, p.reference, p.view, p.version, p.sequence, p.newest_fact_at,
    p.audit_version, p.audit_hash, p.created_at, p.updated_at FROM payment p`

func scanPayment(r pgx.CollectableRow) (p store.Payment, err error) {
	var reference, view []byte
	var newest, created, updated int64
	err = r.Scan(&p.ID, &p.Scope.Account, &p.Scope.Mode, &p.Scope.Connected, &p.Order.Shop, &p.Order.ID, &p.Expected.Value, &p.Expected.Currency,
		&p.Rule, &p.FulfillOn, &p.Adopted, &p.ByOrder, &reference, &view, &p.Version, &p.Sequence, &newest,
		&p.Audit.Version, &p.Audit.Hash, &created, &updated)
	if err != nil {
		return p, err
	}
	p.NewestFactAt, p.CreatedAt, p.UpdatedAt, p.Audit.Hash = moment(newest), moment(created), moment(updated), some(p.Audit.Hash)
	if err := json.Unmarshal(reference, &p.References); err != nil {
		return p, fmt.Errorf("reading the references of payment %s: %w", p.ID, err)
	}
	if len(p.References) == 0 {
		p.References = nil
	}
	if err := json.Unmarshal(view, &p.View); err != nil {
		return p, fmt.Errorf("reading the view of payment %s: %w", p.ID, err)
	}
	return p, nil
}

// Payment implements store.PaymentReader.
func (t *tx) Payment(ctx context.Context, id string) (store.Payment, error) {
	return row(ctx, t, "reading payment "+id, scanPayment, paymentSelect+` WHERE p.id = $1`, id)
}

var paymentFilters = filters{
	"account": "p.account", "mode": "p.mode", "connected_account": "p.connected", "order": "p.order_id", "shop": "p.shop",
	"state": "p.state", "dispute": "p.dispute", "adopted": "p.adopted" + boolean,
}

// Payments implements store.PaymentReader.
func (t *tx) Payments(ctx context.Context, l store.List) ([]store.Payment, error) {
	page, args, err := paymentFilters.page("p.id", l)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, "listing payments", scanPayment, paymentSelect+page, args...)
}

// OrderKeysOf implements store.PaymentReader.
func (t *tx) OrderKeysOf(ctx context.Context, payments []string) (map[string]store.OrderKey, error) {
	keys := make(map[string]store.OrderKey, len(payments))
	if len(payments) == 0 {
		return keys, nil
	}
	b := &pgx.Batch{}
	b.Queue(`SELECT id, shop, order_id FROM payment WHERE id = ANY($1::text[])`, payments).Query(func(found pgx.Rows) error {
		var id string
		var k store.OrderKey
		_, err := pgx.ForEachRow(found, []any{&id, &k.Shop, &k.ID}, func() error {
			keys[id] = k
			return nil
		})
		return err
	})
	return keys, t.send(ctx, "reading the orders of payments", b)
}

var paymentsOfOrders = paymentSelect + ` WHERE p.id = ANY(ARRAY(SELECT f.id FROM ` + orderKeyColumns.rows(1) + `
CROSS JOIN LATERAL (SELECT k.id FROM payment k WHERE k.shop = u.shop AND k.order_id = u.order_id OFFSET 0) f))
ORDER BY p.id`

// PaymentsOfOrders implements store.PaymentReader.
func (t *tx) PaymentsOfOrders(ctx context.Context, keys []store.OrderKey) ([]store.Payment, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return rows(ctx, t, "reading the payments of orders", scanPayment, paymentsOfOrders, orderKeyColumns.args(distinctKeys(keys))...)
}

// LockPayments implements store.PaymentWriter.
func (t *tx) LockPayments(ctx context.Context, ids []string) ([]store.Payment, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return rows(ctx, t, "locking payments", scanPayment, paymentSelect+` WHERE p.id = ANY($1::text[]) ORDER BY p.id FOR UPDATE`, ids)
}

// InsertPayment implements store.PaymentWriter. ErrConflict if the id is taken.
func (t *tx) InsertPayment(ctx context.Context, p store.Payment) error {
	what := "inserting payment " + p.ID
	list, err := paymentRows([]store.Payment{p})
	if err != nil {
		return t.fail(what, err)
	}
	_, err = t.exec(ctx, what, insertPayments, paymentColumns.args(list)...)
	return err
}
