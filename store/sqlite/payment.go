package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/store"
)

const paymentColumns = `p.id, p.account, p.mode, p.connected, p.shop, p.order_id, p.expected_value, p.expected_currency, p.rule,
	p.fulfill_on, p.adopted, p.refs, p.by_order, p.view, p.version, p.sequence, p.newest_fact_at, p.audit_version, p.audit_hash,
	p.created_at, p.updated_at`

const paymentSelect = `SELECT ` + paymentColumns + ` FROM payment p`

func scanPayment(row scanner) (store.Payment, error) {
	var p store.Payment
	var refs, view []byte
	var newest, created, updated sql.NullInt64
	err := row.Scan(&p.ID, &p.Scope.Account, &p.Scope.Mode, &p.Scope.Connected, &p.Order.Shop, &p.Order.ID, &p.Expected.Value,
		&p.Expected.Currency, &p.Rule, &p.FulfillOn, &p.Adopted, &refs, &p.ByOrder, &view, &p.Version, &p.Sequence, &newest,
		&p.Audit.Version, &p.Audit.Hash, &created, &updated)
	if err != nil {
		return p, err
	}
	p.NewestFactAt, p.CreatedAt, p.UpdatedAt = instant(newest), instant(created), instant(updated)
	err = errors.Join(json.Unmarshal(refs, &p.References), json.Unmarshal(view, &p.View))
	if len(p.References) == 0 {
		p.References = nil
	}
	return p, err
}

func encode(v any) (string, error) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("encoding a column: %w", err)
	}
	return string(b), nil
}

// Payment implements store.PaymentReader.
func (t *tx) Payment(ctx context.Context, id string) (store.Payment, error) {
	return one(ctx, t, scanPayment, paymentSelect+` WHERE p.id = ?`, id)
}

var paymentFilters = map[string]string{
	"account": "p.account", "mode": "p.mode", "order": "p.order_id", "shop": "p.shop", "state": "p.state",
	"dispute": "p.dispute", "adopted": "p.adopted", "connected_account": "p.connected",
}

// Payments implements store.PaymentReader.
func (t *tx) Payments(ctx context.Context, l store.List) ([]store.Payment, error) {
	q := query{text: paymentSelect, id: "p.id"}
	if err := q.filter(l, paymentFilters); err != nil {
		return nil, err
	}
	return all(ctx, t, scanPayment, q.text, q.args...)
}

const orderSelect = `SELECT o.id, o.shop, o.order_id, o.total_value, o.total_currency, o.fulfillment, o.revocations, o.shipped_at,
	o.audit_version, o.audit_hash, o.created_at, o.updated_at FROM orders o`

func scanOrder(row scanner) (store.Order, error) {
	var o store.Order
	var shipped, created, updated sql.NullInt64
	err := row.Scan(&o.ID, &o.Key.Shop, &o.Key.ID, &o.Total.Value, &o.Total.Currency, &o.Fulfillment, &o.Revocations, &shipped,
		&o.Audit.Version, &o.Audit.Hash, &created, &updated)
	o.ShippedAt, o.CreatedAt, o.UpdatedAt = instant(shipped), instant(created), instant(updated)
	return o, err
}

// Order implements store.PaymentReader.
func (t *tx) Order(ctx context.Context, k store.OrderKey) (store.Order, error) {
	return one(ctx, t, scanOrder, orderSelect+` WHERE o.shop = ? AND o.order_id = ?`, k.Shop, k.ID)
}

// OrderByID implements store.PaymentReader.
func (t *tx) OrderByID(ctx context.Context, id string) (store.Order, error) {
	return one(ctx, t, scanOrder, orderSelect+` WHERE o.id = ?`, id)
}

var orderFilters = map[string]string{"shop": "o.shop", "order": "o.order_id", "fulfillment": "o.fulfillment"}

// Orders implements store.PaymentReader.
func (t *tx) Orders(ctx context.Context, l store.List) ([]store.Order, error) {
	q := query{text: orderSelect, id: "o.id"}
	if err := q.filter(l, orderFilters); err != nil {
		return nil, err
	}
	return all(ctx, t, scanOrder, q.text, q.args...)
}

// OrderKeysOf implements store.PaymentReader.
func (t *tx) OrderKeysOf(ctx context.Context, payments []string) (map[string]store.OrderKey, error) {
	keys := make(map[string]store.OrderKey, len(payments))
	for _, id := range unique(payments) {
		err := t.query(ctx, func(rows *sql.Rows) error {
			var k store.OrderKey
			err := rows.Scan(&k.Shop, &k.ID)
			keys[id] = k
			return err
		}, `SELECT shop, order_id FROM payment WHERE id = ?`, id)
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// ofOrders collects the rows of a query by shop and order, each order once.
func ofOrders[T any](ctx context.Context, t *tx, keys []store.OrderKey, scan func(scanner) (T, error), query string) ([]T, error) {
	var out []T
	seen := map[store.OrderKey]bool{}
	for _, k := range keys {
		if seen[k] {
			continue
		}
		seen[k] = true
		rows, err := all(ctx, t, scan, query, k.Shop, k.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// PaymentsOfOrders implements store.PaymentReader.
func (t *tx) PaymentsOfOrders(ctx context.Context, keys []store.OrderKey) ([]store.Payment, error) {
	out, err := ofOrders(ctx, t, keys, scanPayment, paymentSelect+` WHERE p.shop = ? AND p.order_id = ?`)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b store.Payment) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return out, nil
}

// Owners implements store.PaymentReader.
func (t *tx) Owners(ctx context.Context, names []store.ScopedName) (map[store.ScopedName]string, error) {
	owners := make(map[store.ScopedName]string, len(names))
	for _, n := range sortedNames(names) {
		ids, err := all(ctx, t, text, `SELECT payment FROM name WHERE account = ? AND mode = ? AND connected = ? AND value = ? AND payment <> ''`,
			n.Account, n.Mode, n.Connected, n.Value)
		if err != nil {
			return nil, err
		}
		if len(ids) > 0 {
			owners[n] = ids[0]
		}
	}
	return owners, nil
}

// OwnersAnywhere implements store.PaymentReader.
func (t *tx) OwnersAnywhere(ctx context.Context, account string, values []string) (map[string][]string, error) {
	owners := map[string][]string{}
	for _, v := range unique(values) {
		ids, err := all(ctx, t, text, `SELECT DISTINCT payment FROM name WHERE account = ? AND value = ? AND payment <> '' ORDER BY payment`, account, v)
		if err != nil {
			return nil, err
		}
		if len(ids) > 0 {
			owners[v] = ids
		}
	}
	return owners, nil
}

// Names implements store.PaymentReader.
func (t *tx) Names(ctx context.Context, payment string) ([]store.Name, error) {
	return all(ctx, t, func(row scanner) (store.Name, error) {
		var n store.Name
		return n, row.Scan(&n.Account, &n.Mode, &n.Connected, &n.Value, &n.Registered)
	}, `SELECT account, mode, connected, value, registered FROM name WHERE payment = ? AND payment <> '' ORDER BY account, mode, connected, value`, payment)
}

// Facts implements store.PaymentReader.
func (t *tx) Facts(ctx context.Context, payments []string) ([]store.Fact, error) {
	var out []store.Fact
	for _, id := range unique(payments) {
		rows, err := all(ctx, t, func(row scanner) (store.Fact, error) {
			f := store.Fact{Payment: id}
			var raw []byte
			var at sql.NullInt64
			if err := row.Scan(&f.Scope.Account, &f.Scope.Mode, &f.Scope.Connected, &raw, &f.EntryID, &at); err != nil {
				return f, err
			}
			f.At = instant(at)
			return f, json.Unmarshal(raw, &f.Fact)
		}, `SELECT account, mode, connected, fact, entry, at FROM fact WHERE payment = ? ORDER BY seq`, id)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// Effects implements store.PaymentReader.
func (t *tx) Effects(ctx context.Context, payments []string) ([]store.Effect, error) {
	var out []store.Effect
	for _, id := range unique(payments) {
		rows, err := all(ctx, t, func(row scanner) (store.Effect, error) {
			e := store.Effect{Subject: id}
			var at sql.NullInt64
			err := row.Scan(&e.Key, &e.Type, &e.Decision, &at)
			e.At = instant(at)
			return e, err
		}, `SELECT key, type, decision, at FROM effect WHERE subject = ? ORDER BY key`, id)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// LockOrders implements store.PaymentWriter. The one writer is the lock.
func (t *tx) LockOrders(ctx context.Context, keys []store.OrderKey) ([]store.Order, error) {
	return ofOrders(ctx, t, keys, scanOrder, orderSelect+` WHERE o.shop = ? AND o.order_id = ?`)
}

// UpsertOrder implements store.PaymentWriter.
func (t *tx) UpsertOrder(ctx context.Context, o store.Order) (store.Order, error) {
	_, err := t.exec(ctx, `INSERT INTO orders (id, shop, order_id, total_value, total_currency, fulfillment, revocations, shipped_at,
		audit_version, audit_hash, created_at, updated_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (shop, order_id) DO NOTHING`,
		o.ID, o.Key.Shop, o.Key.ID, o.Total.Value, o.Total.Currency, o.Fulfillment, o.Revocations, micro(o.ShippedAt),
		o.Audit.Version, o.Audit.Hash, micro(o.CreatedAt), micro(o.UpdatedAt))
	if err != nil {
		return o, fmt.Errorf("inserting order %s: %w", o.Key.ID, err)
	}
	return t.Order(ctx, o.Key)
}

// LockPayments implements store.PaymentWriter. The one writer is the lock.
func (t *tx) LockPayments(ctx context.Context, ids []string) ([]store.Payment, error) {
	var out []store.Payment
	for _, id := range unique(ids) {
		rows, err := all(ctx, t, scanPayment, paymentSelect+` WHERE p.id = ?`, id)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// InsertPayment implements store.PaymentWriter.
func (t *tx) InsertPayment(ctx context.Context, p store.Payment) error {
	refs, err := encode(p.References)
	if err != nil {
		return err
	}
	view, err := encode(p.View)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, `INSERT INTO payment (id, account, mode, connected, shop, order_id, expected_value, expected_currency, rule,
		fulfill_on, adopted, refs, by_order, state, dispute, view, version, sequence, newest_fact_at, audit_version, audit_hash,
		created_at, updated_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		p.ID, p.Scope.Account, p.Scope.Mode, p.Scope.Connected, p.Order.Shop, p.Order.ID, p.Expected.Value, p.Expected.Currency,
		string(p.Rule), string(p.FulfillOn), p.Adopted, refs, p.ByOrder, string(p.View.State), string(p.View.Dispute), view,
		p.Version, p.Sequence, micro(p.NewestFactAt), p.Audit.Version, p.Audit.Hash, micro(p.CreatedAt), micro(p.UpdatedAt))
	if err != nil {
		return fmt.Errorf("inserting payment %s: %w", p.ID, err)
	}
	return nil
}

func (t *tx) updatePayment(ctx context.Context, p store.Payment) error {
	refs, err := encode(p.References)
	if err != nil {
		return err
	}
	view, err := encode(p.View)
	if err != nil {
		return err
	}
	n, err := t.exec(ctx, `UPDATE payment SET shop = ?, order_id = ?, expected_value = ?, expected_currency = ?, rule = ?, fulfill_on = ?,
		adopted = ?, refs = ?, by_order = ?, state = ?, dispute = ?, view = ?, version = ?, sequence = ?, newest_fact_at = ?,
		audit_version = ?, audit_hash = ?, updated_at = ? WHERE id = ?`,
		p.Order.Shop, p.Order.ID, p.Expected.Value, p.Expected.Currency, string(p.Rule), string(p.FulfillOn), p.Adopted, refs,
		p.ByOrder, string(p.View.State), string(p.View.Dispute), view, p.Version, p.Sequence, micro(p.NewestFactAt),
		p.Audit.Version, p.Audit.Hash, micro(p.UpdatedAt), p.ID)
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("updating payment %s: %w", p.ID, err)
	}
	return nil
}

func (t *tx) updateOrder(ctx context.Context, o store.Order) error {
	n, err := t.exec(ctx, `UPDATE orders SET total_value = ?, total_currency = ?, fulfillment = ?, revocations = ?, shipped_at = ?,
		audit_version = ?, audit_hash = ?, updated_at = ? WHERE id = ?`,
		o.Total.Value, o.Total.Currency, o.Fulfillment, o.Revocations, micro(o.ShippedAt), o.Audit.Version, o.Audit.Hash,
		micro(o.UpdatedAt), o.ID)
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("updating order %s: %w", o.Key.ID, err)
	}
	return nil
}

// Bind implements store.PaymentWriter.
func (t *tx) Bind(ctx context.Context, bindings []store.Binding) (map[store.ScopedName]string, error) {
	bindings = slices.Clone(bindings)
	slices.SortStableFunc(bindings, func(a, b store.Binding) int { return compareNames(a.ScopedName, b.ScopedName) })
	owners := make(map[store.ScopedName]string, len(bindings))
	for _, b := range bindings {
		owner, err := one(ctx, t, text, `INSERT INTO name (account, mode, connected, value, payment, registered) VALUES (?,?,?,?,?,?)
			ON CONFLICT (account, mode, connected, value) DO UPDATE SET
			payment = CASE WHEN payment = '' THEN excluded.payment ELSE payment END,
			registered = CASE WHEN payment = '' OR payment = excluded.payment THEN registered OR excluded.registered ELSE registered END
			RETURNING payment`,
			b.Account, b.Mode, b.Connected, b.Value, b.Payment, b.Registered && b.Payment != "")
		if err != nil {
			return nil, fmt.Errorf("binding a name: %w", err)
		}
		owners[b.ScopedName] = owner
	}
	return owners, nil
}

// Save implements store.PaymentWriter.
func (t *tx) Save(ctx context.Context, c store.Changes) error {
	for _, f := range c.Facts {
		if err := t.insertFact(ctx, f); err != nil {
			return err
		}
	}
	for _, p := range c.Payments {
		if err := t.updatePayment(ctx, p); err != nil {
			return err
		}
	}
	for _, o := range c.Orders {
		if err := t.updateOrder(ctx, o); err != nil {
			return err
		}
	}
	for _, e := range c.Effects {
		if _, err := t.exec(ctx, `INSERT INTO effect (subject, key, type, decision, at) VALUES (?,?,?,?,?)
			ON CONFLICT (subject, key) DO UPDATE SET type = excluded.type, decision = excluded.decision, at = excluded.at`,
			e.Subject, e.Key, e.Type, e.Decision, micro(e.At)); err != nil {
			return fmt.Errorf("recording effect of %s: %w", e.Subject, err)
		}
	}
	crashpoint.Hit("apply.saved")
	if err := t.InsertMessages(ctx, c.Messages); err != nil {
		return err
	}
	work := slices.Clone(c.Work)
	for _, m := range c.Messages {
		work = append(work, store.Work{Queue: store.QueueOutbox(m.Destination), ID: m.ID, Lane: m.Lane})
	}
	if err := t.PutExceptions(ctx, c.Exceptions); err != nil {
		return err
	}
	if err := t.insertAudit(ctx, c.Audit); err != nil {
		return err
	}
	if err := t.Finish(ctx, c.Results); err != nil {
		return err
	}
	return t.Enqueue(ctx, work)
}

func (t *tx) insertFact(ctx context.Context, f store.Fact) error {
	raw, err := encode(f.Fact)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, `INSERT INTO fact (payment, account, mode, connected, key, variant, fact, entry, at) VALUES (?,?,?,?,?,?,?,?,?)
		ON CONFLICT (account, mode, connected, key, variant) DO NOTHING`,
		f.Payment, f.Scope.Account, f.Scope.Mode, f.Scope.Connected, f.Key(), f.Variant(), raw, f.EntryID, micro(f.At))
	if err != nil {
		return fmt.Errorf("inserting a fact of %s: %w", f.Payment, err)
	}
	return nil
}
