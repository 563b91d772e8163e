package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

var nameColumns = columns[store.ScopedName]{
	text("account", func(n *store.ScopedName) string { return n.Account }),
	text("mode", func(n *store.ScopedName) string { return n.Mode }),
	text("connected", func(n *store.ScopedName) string { return n.Connected }),
	text("value", func(n *store.ScopedName) string { return n.Value }),
}

var bindingColumns = columns[store.Binding]{
	text("account", func(b *store.Binding) string { return b.Account }),
	text("mode", func(b *store.Binding) string { return b.Mode }),
	text("connected", func(b *store.Binding) string { return b.Connected }),
	text("value", func(b *store.Binding) string { return b.Value }),
	text("payment", func(b *store.Binding) string { return b.Payment }),
	flag("registered", func(b *store.Binding) bool { return b.Registered }),
}

// bindNames locks every name, and writes only those that change. The wanted
// owner of a name that has one counts only if it is the same.
var bindNames = `INSERT INTO name (account, mode, connected, value, payment, registered)
SELECT u.account, u.mode, u.connected, u.value, NULLIF(u.payment, ''), u.registered FROM ` + bindingColumns.rows(1) + `
ON CONFLICT (account, value, mode, connected) DO UPDATE SET payment = excluded.payment, registered = excluded.registered OR name.registered
WHERE excluded.payment IS NOT NULL
AND (name.payment IS NULL OR name.payment = excluded.payment AND excluded.registered AND NOT name.registered)`

// ownersOf reads the owners as a statement of its own: the one that locks does
// not return what it only locked.
var ownersOf = `SELECT u.account, u.mode, u.connected, u.value, COALESCE(o.payment, '') FROM ` + nameColumns.rows(1) + `
CROSS JOIN LATERAL (SELECT n.payment FROM name n
    WHERE n.account = u.account AND n.value = u.value AND n.mode = u.mode AND n.connected = u.connected LIMIT 1) o`

func compareNames(a, b store.ScopedName) int {
	return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Mode, b.Mode),
		strings.Compare(a.Connected, b.Connected), strings.Compare(a.Value, b.Value))
}

// Bind implements store.PaymentWriter.
func (t *tx) Bind(ctx context.Context, bindings []store.Binding) (map[store.ScopedName]string, error) {
	owners := make(map[store.ScopedName]string, len(bindings))
	if len(bindings) == 0 {
		return owners, nil
	}
	bindings = mergeBindings(bindings)
	names := make([]store.ScopedName, len(bindings))
	for i := range bindings {
		names[i] = bindings[i].ScopedName
	}
	b := &pgx.Batch{}
	b.Queue(bindNames, bindingColumns.args(bindings)...)
	b.Queue(ownersOf, nameColumns.args(names)...).Query(func(found pgx.Rows) error { return collectOwners(found, owners) })
	return owners, t.send(ctx, "binding names", b)
}

// mergeBindings sorts and keeps one binding of each name: the first that wants
// it, registered if one of that payment is.
func mergeBindings(bindings []store.Binding) []store.Binding {
	merged := make(map[store.ScopedName]store.Binding, len(bindings))
	for _, b := range bindings {
		m, ok := merged[b.ScopedName]
		switch {
		case !ok, m.Payment == "":
			merged[b.ScopedName] = b
		case b.Payment == m.Payment && b.Registered:
			m.Registered = true
			merged[b.ScopedName] = m
		}
	}
	list := make([]store.Binding, 0, len(merged))
	for _, b := range merged {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b store.Binding) int { return compareNames(a.ScopedName, b.ScopedName) })
	return list
}

func collectOwners(found pgx.Rows, owners map[store.ScopedName]string) error {
	var n store.ScopedName
	var payment string
	_, err := pgx.ForEachRow(found, []any{&n.Account, &n.Mode, &n.Connected, &n.Value, &payment}, func() error {
		owners[n] = payment
		return nil
	})
	return err
}

// Owners implements store.PaymentReader.
func (t *tx) Owners(ctx context.Context, names []store.ScopedName) (map[store.ScopedName]string, error) {
	owners := make(map[store.ScopedName]string, len(names))
	if len(names) == 0 {
		return owners, nil
	}
	b := &pgx.Batch{}
	b.Queue(ownersOf+` WHERE o.payment IS NOT NULL`, nameColumns.args(names)...).
		Query(func(found pgx.Rows) error { return collectOwners(found, owners) })
	return owners, t.send(ctx, "reading the owners of names", b)
}

// OwnersAnywhere implements store.PaymentReader.
func (t *tx) OwnersAnywhere(ctx context.Context, account string, values []string) (map[string][]string, error) {
	owners := map[string][]string{}
	if len(values) == 0 {
		return owners, nil
	}
	b := &pgx.Batch{}
	b.Queue(`SELECT DISTINCT value, payment FROM name WHERE account = $1 AND value = ANY($2::text[]) AND payment IS NOT NULL
ORDER BY value, payment`, account, values).Query(func(found pgx.Rows) error {
		var value, payment string
		_, err := pgx.ForEachRow(found, []any{&value, &payment}, func() error {
			owners[value] = append(owners[value], payment)
			return nil
		})
		return err
	})
	return owners, t.send(ctx, "reading owners in any scope", b)
}

// WaitingUnder implements store.EntryReader.
func (t *tx) WaitingUnder(ctx context.Context, account, value string, limit int) ([]string, error) {
	return rows(ctx, t, "reading what waits under a name", pgx.RowTo[string],
		`SELECT DISTINCT entry FROM waiting WHERE account = $1 AND value = $2 ORDER BY entry DESC LIMIT $3`, account, value, limit)
}

// Names implements store.PaymentReader.
func (t *tx) Names(ctx context.Context, payment string) ([]store.Name, error) {
	return rows(ctx, t, "reading the names of payment "+payment, func(r pgx.CollectableRow) (n store.Name, err error) {
		err = r.Scan(&n.Account, &n.Mode, &n.Connected, &n.Value, &n.Registered)
		return n, err
	}, `SELECT account, mode, connected, value, registered FROM name WHERE payment = $1 ORDER BY account, mode, connected, value`, payment)
}
