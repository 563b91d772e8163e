package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

var orderKeyColumns = columns[store.OrderKey]{
	text("shop", func(k *store.OrderKey) string { return k.Shop }),
	text("order_id", func(k *store.OrderKey) string { return k.ID }),
}

func distinctKeys(keys []store.OrderKey) []store.OrderKey {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b store.OrderKey) int {
		return cmp.Or(strings.Compare(a.Shop, b.Shop), strings.Compare(a.ID, b.ID))
	})
	return slices.Compact(keys)
}

var orderColumns = columns[store.Order]{
	text("id", func(o *store.Order) string { return o.ID }),
	text("shop", func(o *store.Order) string { return o.Key.Shop }),
	text("order_id", func(o *store.Order) string { return o.Key.ID }),
	whole("total_value", func(o *store.Order) int64 { return o.Total.Value }),
	text("total_currency", func(o *store.Order) string { return o.Total.Currency }),
	text("fulfillment", func(o *store.Order) string { return o.Fulfillment }),
	whole("revocations", func(o *store.Order) int64 { return int64(o.Revocations) }),
	instant("shipped_at", func(o *store.Order) time.Time { return o.ShippedAt }),
	whole("audit_version", func(o *store.Order) int64 { return o.Audit.Version }),
	octets("audit_hash", func(o *store.Order) []byte { return o.Audit.Hash }),
	instant("created_at", func(o *store.Order) time.Time { return o.CreatedAt }),
	instant("updated_at", func(o *store.Order) time.Time { return o.UpdatedAt }),
}

var (
	insertOrders = orderColumns.insert("orders", "ON CONFLICT (shop, order_id) DO NOTHING")
	updateOrders = `UPDATE orders o SET ` + orderColumns.assign("u", "id", "shop", "order_id", "created_at") +
		` FROM ` + orderColumns.rows(1) + ` WHERE o.id = u.id`
)

const orderSelect = `SELECT o.id, o.shop, o.order_id, o.total_value, o.total_currency, o.fulfillment, o.revocations, o.shipped_at,
    o.audit_version, o.audit_hash, o.created_at, o.updated_at FROM orders o`

func scanOrder(r pgx.CollectableRow) (o store.Order, err error) {
	var shipped, created, updated int64
	err = r.Scan(&o.ID, &o.Key.Shop, &o.Key.ID, &o.Total.Value, &o.Total.Currency, &o.Fulfillment, &o.Revocations, &shipped,
		&o.Audit.Version, &o.Audit.Hash, &created, &updated)
	o.ShippedAt, o.CreatedAt, o.UpdatedAt, o.Audit.Hash = moment(shipped), moment(created), moment(updated), some(o.Audit.Hash)
	return o, err
}

// Order implements store.PaymentReader.
func (t *tx) Order(ctx context.Context, k store.OrderKey) (store.Order, error) {
	return row(ctx, t, "reading order "+k.ID, scanOrder, orderSelect+` WHERE o.shop = $1 AND o.order_id = $2`, k.Shop, k.ID)
}

// OrderByID implements store.PaymentReader.
func (t *tx) OrderByID(ctx context.Context, id string) (store.Order, error) {
	return row(ctx, t, "reading order "+id, scanOrder, orderSelect+` WHERE o.id = $1`, id)
}

var orderFilters = filters{"shop": "o.shop", "order": "o.order_id", "fulfillment": "o.fulfillment"}

// Orders implements store.PaymentReader.
func (t *tx) Orders(ctx context.Context, l store.List) ([]store.Order, error) {
	page, args, err := orderFilters.page("o.id", l)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, "listing orders", scanOrder, orderSelect+page, args...)
}

var lockOrders = orderSelect + ` WHERE o.id = ANY(ARRAY(SELECT f.id FROM ` + orderKeyColumns.rows(1) + `
CROSS JOIN LATERAL (SELECT k.id FROM orders k WHERE k.shop = u.shop AND k.order_id = u.order_id LIMIT 1) f))
ORDER BY o.id FOR UPDATE`

// LockOrders implements store.PaymentWriter.
func (t *tx) LockOrders(ctx context.Context, keys []store.OrderKey) ([]store.Order, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return rows(ctx, t, "locking orders", scanOrder, lockOrders, orderKeyColumns.args(distinctKeys(keys))...)
}

// UpsertOrder implements store.PaymentWriter. The lock is a statement of its
// own, because the one that inserts cannot see the row that it lost against.
func (t *tx) UpsertOrder(ctx context.Context, o store.Order) (store.Order, error) {
	what := "storing order " + o.Key.ID
	b := &pgx.Batch{}
	b.Queue(insertOrders, orderColumns.args([]store.Order{o})...)
	var stored []store.Order
	b.Queue(lockOrders, orderKeyColumns.args([]store.OrderKey{o.Key})...).Query(func(found pgx.Rows) (err error) {
		stored, err = pgx.CollectRows(found, scanOrder)
		return err
	})
	if err := t.send(ctx, what, b); err != nil {
		return store.Order{}, err
	}
	if len(stored) == 0 {
		return store.Order{}, t.fail(what, store.ErrNotFound)
	}
	return stored[0], nil
}
