-- +goose Up
PRAGMA application_id = 1970168182;
CREATE TABLE inbox (
    id TEXT PRIMARY KEY, account TEXT NOT NULL, mode TEXT NOT NULL, connected TEXT NOT NULL, identity TEXT NOT NULL,
    provider_event_id TEXT NOT NULL, type TEXT NOT NULL, source TEXT NOT NULL, received_at INTEGER NOT NULL,
    occurred_at INTEGER, body_digest BLOB NOT NULL, fact_digest BLOB NOT NULL, variant_of TEXT NOT NULL,
    trace TEXT NOT NULL, malformed INTEGER NOT NULL,
    UNIQUE (account, mode, identity)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_provider_event ON inbox (provider_event_id);
CREATE INDEX inbox_variant ON inbox (variant_of) WHERE variant_of <> '';

CREATE TABLE inbox_body (id TEXT PRIMARY KEY, codec INTEGER NOT NULL, size INTEGER NOT NULL, bytes BLOB NOT NULL, header BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE inbox_delivery (id TEXT PRIMARY KEY, deliveries INTEGER NOT NULL, last_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE inbox_result (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, outcome TEXT NOT NULL, payment TEXT NOT NULL, order_id TEXT NOT NULL,
    reason TEXT NOT NULL, error TEXT NOT NULL, stack TEXT NOT NULL, attempts INTEGER NOT NULL, at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_result_payment ON inbox_result (payment) WHERE payment <> '';
CREATE INDEX inbox_result_order ON inbox_result (order_id) WHERE order_id <> '';
CREATE INDEX inbox_result_dead ON inbox_result (id) WHERE state = 'dead';

CREATE TABLE lane (
    queue TEXT NOT NULL, lane TEXT NOT NULL, token TEXT NOT NULL DEFAULT '', until INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL, PRIMARY KEY (queue, lane)
) STRICT, WITHOUT ROWID;
CREATE INDEX lane_next ON lane (queue, next_at);
CREATE INDEX lane_token ON lane (token) WHERE token <> '';

CREATE TABLE work (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, id TEXT NOT NULL, lane TEXT NOT NULL,
    token TEXT NOT NULL DEFAULT '', suspect INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL, waiting INTEGER NOT NULL DEFAULT 0, last_error TEXT NOT NULL DEFAULT '',
    enqueued_at INTEGER NOT NULL, UNIQUE (queue, id)
) STRICT;
CREATE INDEX work_lane ON work (queue, lane, seq);
CREATE INDEX work_token ON work (token) WHERE token <> '';

CREATE TABLE waiting (
    account TEXT NOT NULL, mode TEXT NOT NULL, connected TEXT NOT NULL, value TEXT NOT NULL, entry TEXT NOT NULL,
    PRIMARY KEY (account, mode, connected, value, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX waiting_entry ON waiting (entry);
CREATE INDEX waiting_value ON waiting (account, value);

CREATE TABLE name (
    account TEXT NOT NULL, mode TEXT NOT NULL, connected TEXT NOT NULL, value TEXT NOT NULL,
    payment TEXT NOT NULL, registered INTEGER NOT NULL, PRIMARY KEY (account, mode, connected, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX name_payment ON name (payment) WHERE payment <> '';
CREATE INDEX name_value ON name (account, value) WHERE payment <> '';

CREATE TABLE payment (
    id TEXT PRIMARY KEY, account TEXT NOT NULL, mode TEXT NOT NULL, connected TEXT NOT NULL, shop TEXT NOT NULL,
    order_id TEXT NOT NULL, expected_value INTEGER NOT NULL, expected_currency TEXT NOT NULL, rule TEXT NOT NULL,
    fulfill_on TEXT NOT NULL, adopted INTEGER NOT NULL, refs TEXT NOT NULL, by_order INTEGER NOT NULL,
    state TEXT NOT NULL, dispute TEXT NOT NULL, view TEXT NOT NULL, version INTEGER NOT NULL, sequence INTEGER NOT NULL,
    newest_fact_at INTEGER, audit_version INTEGER NOT NULL, audit_hash BLOB, created_at INTEGER, updated_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX payment_order ON payment (order_id, shop);

CREATE TABLE orders (
    id TEXT PRIMARY KEY, shop TEXT NOT NULL, order_id TEXT NOT NULL, total_value INTEGER NOT NULL,
    total_currency TEXT NOT NULL, fulfillment TEXT NOT NULL, revocations INTEGER NOT NULL, shipped_at INTEGER,
    audit_version INTEGER NOT NULL, audit_hash BLOB, created_at INTEGER, updated_at INTEGER, UNIQUE (shop, order_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE fact (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, payment TEXT NOT NULL, account TEXT NOT NULL, mode TEXT NOT NULL,
    connected TEXT NOT NULL, key TEXT NOT NULL, variant TEXT NOT NULL, fact TEXT NOT NULL, entry TEXT NOT NULL, at INTEGER,
    UNIQUE (account, mode, connected, key, variant)
) STRICT;
CREATE INDEX fact_payment ON fact (payment);

CREATE TABLE effect (
    subject TEXT NOT NULL, key TEXT NOT NULL, type TEXT NOT NULL, decision TEXT NOT NULL, at INTEGER, PRIMARY KEY (subject, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
    id TEXT PRIMARY KEY, destination TEXT NOT NULL, type TEXT NOT NULL, account TEXT NOT NULL, payment TEXT NOT NULL,
    order_id TEXT NOT NULL, cause TEXT NOT NULL, lane TEXT NOT NULL, sequence INTEGER NOT NULL, body BLOB NOT NULL,
    header BLOB NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, last_error TEXT NOT NULL, next_at INTEGER,
    created_at INTEGER, delivered_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX message_cause ON message (destination, cause) WHERE cause <> '';
CREATE INDEX message_payment ON message (payment) WHERE payment <> '';
CREATE INDEX message_order ON message (order_id) WHERE order_id <> '';
CREATE INDEX message_state ON message (state, id) WHERE state IN ('dead', 'ambiguous');

CREATE TABLE attempt (
    id TEXT PRIMARY KEY, message TEXT NOT NULL, number INTEGER NOT NULL, at INTEGER, duration INTEGER NOT NULL,
    status INTEGER NOT NULL, verdict TEXT NOT NULL, error TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_message ON attempt (message, number);

CREATE TABLE exception (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, condition TEXT NOT NULL UNIQUE, subject TEXT NOT NULL, reason TEXT NOT NULL,
    state TEXT NOT NULL, account TEXT NOT NULL, event TEXT NOT NULL, provider_event_id TEXT NOT NULL, payment TEXT NOT NULL,
    order_id TEXT NOT NULL, operation TEXT NOT NULL, message TEXT NOT NULL, urgency TEXT NOT NULL,
    amount_value INTEGER NOT NULL, amount_currency TEXT NOT NULL, detail BLOB, opened_at INTEGER, updated_at INTEGER,
    closed_at INTEGER, closing TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX exception_subject ON exception (subject);
CREATE INDEX exception_open ON exception (state, kind);
CREATE INDEX exception_event ON exception (event) WHERE event <> '';
CREATE INDEX exception_payment ON exception (payment) WHERE payment <> '';

CREATE TABLE audit (
    id TEXT PRIMARY KEY, subject TEXT NOT NULL, version INTEGER NOT NULL, action TEXT NOT NULL, actor TEXT NOT NULL,
    entry TEXT NOT NULL, detail BLOB, at INTEGER, prev BLOB, hash BLOB NOT NULL, UNIQUE (subject, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit_head (subject TEXT PRIMARY KEY, version INTEGER NOT NULL, hash BLOB NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_key (
    principal TEXT NOT NULL, key TEXT NOT NULL, route TEXT NOT NULL, fingerprint BLOB, state TEXT NOT NULL,
    status INTEGER NOT NULL, header BLOB, body BLOB, token TEXT NOT NULL, lease_at INTEGER, created_at INTEGER,
    expires_at INTEGER, PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_key_expires ON idempotency_key (expires_at);

CREATE TABLE token (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, hash BLOB NOT NULL UNIQUE, created_at INTEGER,
    last_used INTEGER, revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
