package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

// factRow is a fact with its identity and its document rendered.
type factRow struct {
	*store.Fact
	key, variant, document string
}

func factRows(facts []store.Fact) ([]factRow, error) {
	list := make([]factRow, len(facts))
	for i := range facts {
		f := &facts[i]
		document, err := encode(&f.Fact)
		if err != nil {
			return nil, fmt.Errorf("rendering fact %s: %w", f.Key(), err)
		}
		list[i] = factRow{f, f.Key(), f.Variant(), document}
	}
	return list, nil
}

var factColumns = columns[factRow]{
	text("account", func(f *factRow) string { return f.Scope.Account }),
	text("mode", func(f *factRow) string { return f.Scope.Mode }),
	text("connected", func(f *factRow) string { return f.Scope.Connected }),
	text("key", func(f *factRow) string { return f.key }),
	text("variant", func(f *factRow) string { return f.variant }),
	text("payment", func(f *factRow) string { return f.Payment }),
	text("fact", func(f *factRow) string { return f.document }),
	text("entry", func(f *factRow) string { return f.EntryID }),
	instant("at", func(f *factRow) time.Time { return f.At }),
}

// insertFacts numbers facts in the order of the arrays; who was there first stays.
var insertFacts = factColumns.insert("fact", "ON CONFLICT DO NOTHING")

const factSelect = `SELECT f.account, f.mode, f.connected, f.payment, f.fact, f.entry, f.at FROM fact f
WHERE f.payment = ANY($1::text[]) ORDER BY f.number`

// Facts implements store.PaymentReader.
func (t *tx) Facts(ctx context.Context, payments []string) ([]store.Fact, error) {
	if len(payments) == 0 {
		return nil, nil
	}
	return rows(ctx, t, "reading facts", func(r pgx.CollectableRow) (f store.Fact, err error) {
		var document []byte
		var at int64
		if err = r.Scan(&f.Scope.Account, &f.Scope.Mode, &f.Scope.Connected, &f.Payment, &document, &f.EntryID, &at); err != nil {
			return f, err
		}
		f.At = moment(at)
		if err = json.Unmarshal(document, &f.Fact); err != nil {
			return f, fmt.Errorf("reading a fact of payment %s: %w", f.Payment, err)
		}
		return f, nil
	}, factSelect, payments)
}

var effectColumns = columns[store.Effect]{
	text("subject", func(e *store.Effect) string { return e.Subject }),
	text("key", func(e *store.Effect) string { return e.Key }),
	text("type", func(e *store.Effect) string { return e.Type }),
	text("decision", func(e *store.Effect) string { return e.Decision }),
	instant("at", func(e *store.Effect) time.Time { return e.At }),
}

var upsertEffects = effectColumns.insert("effect", "ON CONFLICT (subject, key) DO UPDATE SET "+effectColumns.assign("excluded", "subject", "key"))

// Effects implements store.PaymentReader.
func (t *tx) Effects(ctx context.Context, payments []string) ([]store.Effect, error) {
	if len(payments) == 0 {
		return nil, nil
	}
	return rows(ctx, t, "reading effects", func(r pgx.CollectableRow) (e store.Effect, err error) {
		var at int64
		err = r.Scan(&e.Subject, &e.Key, &e.Type, &e.Decision, &at)
		e.At = moment(at)
		return e, err
	}, `SELECT subject, key, type, decision, at FROM effect WHERE subject = ANY($1::text[]) ORDER BY subject, key`, payments)
}
