package storetest

import (
	"context"
	"time"

	"github.com/unavez/unavez/store"
)

// faultReader counts and fails the calls of a reader.
type faultReader struct {
	f *Fault
	r store.Reader
}

// faultTx counts and fails the calls of a transaction.
type faultTx struct {
	faultReader
	tx store.Tx
}

var (
	_ store.Reader = faultReader{}
	_ store.Tx     = faultTx{}
)

func (r faultReader) Entry(ctx context.Context, id string) (store.EntryStatus, error) {
	return faulty(r.f, "Entry", func() (store.EntryStatus, error) { return r.r.Entry(ctx, id) })
}

func (r faultReader) EntryByIdentity(ctx context.Context, s store.Scope, identity string) (store.EntryStatus, error) {
	return faulty(r.f, "EntryByIdentity", func() (store.EntryStatus, error) { return r.r.EntryByIdentity(ctx, s, identity) })
}

func (r faultReader) Body(ctx context.Context, id string) (store.Body, error) {
	return faulty(r.f, "Body", func() (store.Body, error) { return r.r.Body(ctx, id) })
}

func (r faultReader) Bodies(ctx context.Context, ids []string) ([]store.EntryWithBody, error) {
	return faulty(r.f, "Bodies", func() ([]store.EntryWithBody, error) { return r.r.Bodies(ctx, ids) })
}

func (r faultReader) Entries(ctx context.Context, l store.List) ([]store.EntryStatus, error) {
	return faulty(r.f, "Entries", func() ([]store.EntryStatus, error) { return r.r.Entries(ctx, l) })
}

func (r faultReader) WaitingUnder(ctx context.Context, account, value string, limit int) ([]string, error) {
	return faulty(r.f, "WaitingUnder", func() ([]string, error) { return r.r.WaitingUnder(ctx, account, value, limit) })
}

func (r faultReader) Payment(ctx context.Context, id string) (store.Payment, error) {
	return faulty(r.f, "Payment", func() (store.Payment, error) { return r.r.Payment(ctx, id) })
}

func (r faultReader) Payments(ctx context.Context, l store.List) ([]store.Payment, error) {
	return faulty(r.f, "Payments", func() ([]store.Payment, error) { return r.r.Payments(ctx, l) })
}

func (r faultReader) Order(ctx context.Context, k store.OrderKey) (store.Order, error) {
	return faulty(r.f, "Order", func() (store.Order, error) { return r.r.Order(ctx, k) })
}

func (r faultReader) Orders(ctx context.Context, l store.List) ([]store.Order, error) {
	return faulty(r.f, "Orders", func() ([]store.Order, error) { return r.r.Orders(ctx, l) })
}

func (r faultReader) OrderByID(ctx context.Context, id string) (store.Order, error) {
	return faulty(r.f, "OrderByID", func() (store.Order, error) { return r.r.OrderByID(ctx, id) })
}

func (r faultReader) OrderKeysOf(ctx context.Context, payments []string) (map[string]store.OrderKey, error) {
	return faulty(r.f, "OrderKeysOf", func() (map[string]store.OrderKey, error) { return r.r.OrderKeysOf(ctx, payments) })
}

func (r faultReader) PaymentsOfOrders(ctx context.Context, keys []store.OrderKey) ([]store.Payment, error) {
	return faulty(r.f, "PaymentsOfOrders", func() ([]store.Payment, error) { return r.r.PaymentsOfOrders(ctx, keys) })
}

func (r faultReader) Owners(ctx context.Context, names []store.ScopedName) (map[store.ScopedName]string, error) {
	return faulty(r.f, "Owners", func() (map[store.ScopedName]string, error) { return r.r.Owners(ctx, names) })
}

func (r faultReader) OwnersAnywhere(ctx context.Context, account string, values []string) (map[string][]string, error) {
	return faulty(r.f, "OwnersAnywhere", func() (map[string][]string, error) { return r.r.OwnersAnywhere(ctx, account, values) })
}

func (r faultReader) Names(ctx context.Context, payment string) ([]store.Name, error) {
	return faulty(r.f, "Names", func() ([]store.Name, error) { return r.r.Names(ctx, payment) })
}

func (r faultReader) Facts(ctx context.Context, payments []string) ([]store.Fact, error) {
	return faulty(r.f, "Facts", func() ([]store.Fact, error) { return r.r.Facts(ctx, payments) })
}

func (r faultReader) Effects(ctx context.Context, payments []string) ([]store.Effect, error) {
	return faulty(r.f, "Effects", func() ([]store.Effect, error) { return r.r.Effects(ctx, payments) })
}

func (r faultReader) Message(ctx context.Context, id string) (store.Message, error) {
	return faulty(r.f, "Message", func() (store.Message, error) { return r.r.Message(ctx, id) })
}

func (r faultReader) Messages(ctx context.Context, l store.List) ([]store.Message, error) {
	return faulty(r.f, "Messages", func() ([]store.Message, error) { return r.r.Messages(ctx, l) })
}

func (r faultReader) MessagesByID(ctx context.Context, ids []string) ([]store.Message, error) {
	return faulty(r.f, "MessagesByID", func() ([]store.Message, error) { return r.r.MessagesByID(ctx, ids) })
}

func (r faultReader) Attempts(ctx context.Context, message string) ([]store.Attempt, error) {
	return faulty(r.f, "Attempts", func() ([]store.Attempt, error) { return r.r.Attempts(ctx, message) })
}

func (r faultReader) Exception(ctx context.Context, id string) (store.Exception, error) {
	return faulty(r.f, "Exception", func() (store.Exception, error) { return r.r.Exception(ctx, id) })
}

func (r faultReader) Exceptions(ctx context.Context, l store.List) ([]store.Exception, error) {
	return faulty(r.f, "Exceptions", func() ([]store.Exception, error) { return r.r.Exceptions(ctx, l) })
}

func (r faultReader) ConditionsOf(ctx context.Context, subjects []string) ([]store.Exception, error) {
	return faulty(r.f, "ConditionsOf", func() ([]store.Exception, error) { return r.r.ConditionsOf(ctx, subjects) })
}

func (r faultReader) Audit(ctx context.Context, l store.List) ([]store.AuditRow, error) {
	return faulty(r.f, "Audit", func() ([]store.AuditRow, error) { return r.r.Audit(ctx, l) })
}

func (r faultReader) AuditChain(ctx context.Context, subject string) ([]store.AuditRow, error) {
	return faulty(r.f, "AuditChain", func() ([]store.AuditRow, error) { return r.r.AuditChain(ctx, subject) })
}

func (r faultReader) IdempotencyKey(ctx context.Context, principal, key string) (store.IdempotencyKey, error) {
	return faulty(r.f, "IdempotencyKey", func() (store.IdempotencyKey, error) { return r.r.IdempotencyKey(ctx, principal, key) })
}

func (r faultReader) TokenByHash(ctx context.Context, hash []byte) (store.Token, error) {
	return faulty(r.f, "TokenByHash", func() (store.Token, error) { return r.r.TokenByHash(ctx, hash) })
}

func (r faultReader) Tokens(ctx context.Context, l store.List) ([]store.Token, error) {
	return faulty(r.f, "Tokens", func() ([]store.Token, error) { return r.r.Tokens(ctx, l) })
}

func (r faultReader) Setting(ctx context.Context, key string) (string, error) {
	return faulty(r.f, "Setting", func() (string, error) { return r.r.Setting(ctx, key) })
}

func (x faultTx) InsertEntries(ctx context.Context, entries []store.EntryWithBody) ([]store.Inserted, error) {
	return faulty(x.f, "InsertEntries", func() ([]store.Inserted, error) { return x.tx.InsertEntries(ctx, entries) })
}

func (x faultTx) CountDeliveries(ctx context.Context, counts map[string]int, at time.Time) error {
	return x.f.check("CountDeliveries", func() error { return x.tx.CountDeliveries(ctx, counts, at) })
}

func (x faultTx) Finish(ctx context.Context, results []store.Result) error {
	return x.f.check("Finish", func() error { return x.tx.Finish(ctx, results) })
}

func (x faultTx) Reopen(ctx context.Context, id string) error {
	return x.f.check("Reopen", func() error { return x.tx.Reopen(ctx, id) })
}

func (x faultTx) Enqueue(ctx context.Context, items []store.Work) error {
	return x.f.check("Enqueue", func() error { return x.tx.Enqueue(ctx, items) })
}

func (x faultTx) CountAttempt(ctx context.Context, queue, token string, ids []string) error {
	return x.f.check("CountAttempt", func() error { return x.tx.CountAttempt(ctx, queue, token, ids) })
}

func (x faultTx) Complete(ctx context.Context, queue, token string, ids []string) error {
	return x.f.check("Complete", func() error { return x.tx.Complete(ctx, queue, token, ids) })
}

func (x faultTx) Postpone(ctx context.Context, queue, token string, items []store.Postponed) error {
	return x.f.check("Postpone", func() error { return x.tx.Postpone(ctx, queue, token, items) })
}

func (x faultTx) Release(ctx context.Context, queue, token string) error {
	return x.f.check("Release", func() error { return x.tx.Release(ctx, queue, token) })
}

func (x faultTx) Extend(ctx context.Context, queue, token string, lease time.Duration) error {
	return x.f.check("Extend", func() error { return x.tx.Extend(ctx, queue, token, lease) })
}

func (x faultTx) Wait(ctx context.Context, waits []store.Waiting) error {
	return x.f.check("Wait", func() error { return x.tx.Wait(ctx, waits) })
}

func (x faultTx) WakeWaiting(ctx context.Context, names []store.ScopedName) ([]string, error) {
	return faulty(x.f, "WakeWaiting", func() ([]string, error) { return x.tx.WakeWaiting(ctx, names) })
}

func (x faultTx) Unwait(ctx context.Context, ids []string) error {
	return x.f.check("Unwait", func() error { return x.tx.Unwait(ctx, ids) })
}

func (x faultTx) LockOrders(ctx context.Context, keys []store.OrderKey) ([]store.Order, error) {
	return faulty(x.f, "LockOrders", func() ([]store.Order, error) { return x.tx.LockOrders(ctx, keys) })
}

func (x faultTx) UpsertOrder(ctx context.Context, o store.Order) (store.Order, error) {
	return faulty(x.f, "UpsertOrder", func() (store.Order, error) { return x.tx.UpsertOrder(ctx, o) })
}

func (x faultTx) LockPayments(ctx context.Context, ids []string) ([]store.Payment, error) {
	return faulty(x.f, "LockPayments", func() ([]store.Payment, error) { return x.tx.LockPayments(ctx, ids) })
}

func (x faultTx) InsertPayment(ctx context.Context, p store.Payment) error {
	return x.f.check("InsertPayment", func() error { return x.tx.InsertPayment(ctx, p) })
}

func (x faultTx) Bind(ctx context.Context, bindings []store.Binding) (map[store.ScopedName]string, error) {
	return faulty(x.f, "Bind", func() (map[store.ScopedName]string, error) { return x.tx.Bind(ctx, bindings) })
}

func (x faultTx) Save(ctx context.Context, c store.Changes) error {
	return x.f.check("Save", func() error { return x.tx.Save(ctx, c) })
}

func (x faultTx) RecordAttempts(ctx context.Context, attempts []store.Attempt, states map[string]store.MessageState) error {
	return x.f.check("RecordAttempts", func() error { return x.tx.RecordAttempts(ctx, attempts, states) })
}

func (x faultTx) InsertMessages(ctx context.Context, m []store.Message) error {
	return x.f.check("InsertMessages", func() error { return x.tx.InsertMessages(ctx, m) })
}

func (x faultTx) PutExceptions(ctx context.Context, e []store.Exception) error {
	return x.f.check("PutExceptions", func() error { return x.tx.PutExceptions(ctx, e) })
}

func (x faultTx) AppendAudit(ctx context.Context, rows []store.AuditRow) error {
	return x.f.check("AppendAudit", func() error { return x.tx.AppendAudit(ctx, rows) })
}

func (x faultTx) BeginKey(ctx context.Context, k store.IdempotencyKey) (stored store.IdempotencyKey, isNew bool, err error) {
	stored, err = faulty(x.f, "BeginKey", func() (stored store.IdempotencyKey, err error) {
		stored, isNew, err = x.tx.BeginKey(ctx, k)
		return stored, err
	})
	return stored, isNew && err == nil, err
}

func (x faultTx) PutKey(ctx context.Context, k store.IdempotencyKey) error {
	return x.f.check("PutKey", func() error { return x.tx.PutKey(ctx, k) })
}

func (x faultTx) DeleteKey(ctx context.Context, principal, key string) error {
	return x.f.check("DeleteKey", func() error { return x.tx.DeleteKey(ctx, principal, key) })
}

func (x faultTx) SweepKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	return faulty(x.f, "SweepKeys", func() (int, error) { return x.tx.SweepKeys(ctx, before, limit) })
}

func (x faultTx) InsertToken(ctx context.Context, t store.Token) error {
	return x.f.check("InsertToken", func() error { return x.tx.InsertToken(ctx, t) })
}

func (x faultTx) RevokeToken(ctx context.Context, id string, at time.Time) error {
	return x.f.check("RevokeToken", func() error { return x.tx.RevokeToken(ctx, id, at) })
}

func (x faultTx) TouchToken(ctx context.Context, id string, at time.Time) error {
	return x.f.check("TouchToken", func() error { return x.tx.TouchToken(ctx, id, at) })
}

func (x faultTx) SetSetting(ctx context.Context, key, value string) error {
	return x.f.check("SetSetting", func() error { return x.tx.SetSetting(ctx, key, value) })
}
