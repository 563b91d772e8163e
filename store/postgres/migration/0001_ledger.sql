-- Instants are microseconds since 1970 in UTC, 0 for none. Ids and names are
-- compared bytewise. Amounts are minor units of ISO 4217.

-- +goose Up

-- One entry per event. Immutable, and without the bytes, so that the identity
-- outlives them.
CREATE TABLE inbox (
    id                text COLLATE "C" PRIMARY KEY,
    account           text COLLATE "C" NOT NULL,
    mode              text COLLATE "C" NOT NULL,
    connected         text COLLATE "C" NOT NULL,
    identity          text COLLATE "C" NOT NULL,
    provider_event_id text COLLATE "C" NOT NULL,
    type              text COLLATE "C" NOT NULL,
    source            text COLLATE "C" NOT NULL,
    received_at       bigint NOT NULL,
    occurred_at       bigint NOT NULL,
    body_digest       bytea NOT NULL,
    fact_digest       bytea NOT NULL,
    variant_of        text COLLATE "C" NOT NULL,
    trace             text COLLATE "C" NOT NULL,
    malformed         boolean NOT NULL,
    CONSTRAINT inbox_identity UNIQUE (account, mode, identity)
);
CREATE INDEX inbox_provider_event ON inbox (provider_event_id);
CREATE INDEX inbox_variant ON inbox (variant_of) WHERE variant_of <> '';

CREATE TABLE inbox_body (
    entry  text COLLATE "C" PRIMARY KEY,
    body   bytea NOT NULL,
    header bytea NOT NULL
);
ALTER TABLE inbox_body ALTER COLUMN body SET STORAGE EXTENDED;

-- lz4 halves the cost of storing a body; a server that was built without it
-- stores the same bytes more slowly.
-- +goose StatementBegin
DO $$
BEGIN
    ALTER TABLE inbox_body ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    RAISE NOTICE 'lz4 is not built in, bodies are compressed with pglz';
END
$$;
-- +goose StatementEnd

CREATE TABLE inbox_result (
    entry    text COLLATE "C" PRIMARY KEY,
    state    text COLLATE "C" NOT NULL,
    outcome  text COLLATE "C" NOT NULL,
    payment  text COLLATE "C" NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    reason   text NOT NULL,
    error    text NOT NULL,
    stack    text NOT NULL,
    attempts integer NOT NULL,
    at       bigint NOT NULL
);
CREATE INDEX inbox_result_payment ON inbox_result (payment) WHERE payment <> '';
CREATE INDEX inbox_result_order ON inbox_result (order_id) WHERE order_id <> '';
CREATE INDEX inbox_result_dead ON inbox_result (entry) WHERE state = 'dead';

CREATE TABLE inbox_delivery (
    entry      text COLLATE "C" PRIMARY KEY,
    deliveries bigint NOT NULL,
    at         bigint NOT NULL
) WITH (fillfactor = 80);

-- A lane is there as long as work is queued in it. While it is leased, next_at
-- is the end of the lease.
CREATE TABLE lane (
    queue   text COLLATE "C" NOT NULL,
    lane    text COLLATE "C" NOT NULL,
    token   text COLLATE "C",
    until   bigint,
    next_at bigint NOT NULL,
    -- lapsed is the token of a lease that ended without a release.
    lapsed  text COLLATE "C",
    -- lanes is how many lanes the token leased.
    lanes   integer NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, lane)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lane_due ON lane (queue, next_at);
CREATE INDEX lane_token ON lane (queue, token) WHERE token IS NOT NULL;

-- number is the order of enqueueing in a lane: the lane's row is locked when it
-- is drawn.
CREATE TABLE work (
    queue       text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    lane        text COLLATE "C" NOT NULL,
    number      bigint GENERATED ALWAYS AS IDENTITY,
    token       text COLLATE "C",
    suspect     boolean NOT NULL DEFAULT false,
    attempts    integer NOT NULL DEFAULT 0,
    not_before  bigint NOT NULL,
    waiting     boolean NOT NULL DEFAULT false,
    last_error  text NOT NULL DEFAULT '',
    enqueued_at bigint NOT NULL,
    PRIMARY KEY (queue, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX work_lane ON work (queue, lane, number);

CREATE TABLE waiting (
    account   text COLLATE "C" NOT NULL,
    mode      text COLLATE "C" NOT NULL,
    connected text COLLATE "C" NOT NULL,
    value     text COLLATE "C" NOT NULL,
    entry     text COLLATE "C" NOT NULL,
    PRIMARY KEY (account, value, mode, connected, entry)
);
CREATE INDEX waiting_entry ON waiting (entry);

CREATE TABLE name (
    account    text COLLATE "C" NOT NULL,
    mode       text COLLATE "C" NOT NULL,
    connected  text COLLATE "C" NOT NULL,
    value      text COLLATE "C" NOT NULL,
    payment    text COLLATE "C",
    registered boolean NOT NULL,
    PRIMARY KEY (account, value, mode, connected)
) WITH (fillfactor = 90);
CREATE INDEX name_payment ON name (payment) WHERE payment IS NOT NULL;

-- Not analyzed while it holds next to nothing: a plan that was made for one row
-- would be kept for a while.
CREATE TABLE payment (
    id                text COLLATE "C" PRIMARY KEY,
    account           text COLLATE "C" NOT NULL,
    mode              text COLLATE "C" NOT NULL,
    connected         text COLLATE "C" NOT NULL,
    shop              text COLLATE "C" NOT NULL,
    order_id          text COLLATE "C" NOT NULL,
    expected_value    bigint NOT NULL,
    expected_currency text COLLATE "C" NOT NULL,
    rule              text COLLATE "C" NOT NULL,
    fulfill_on        text COLLATE "C" NOT NULL,
    adopted           boolean NOT NULL,
    by_order          boolean NOT NULL,
    reference         text NOT NULL,
    state             text COLLATE "C" NOT NULL,
    dispute           text COLLATE "C" NOT NULL,
    view              text NOT NULL,
    version           bigint NOT NULL,
    sequence          bigint NOT NULL,
    newest_fact_at    bigint NOT NULL,
    audit_version     bigint NOT NULL,
    audit_hash        bytea NOT NULL,
    created_at        bigint NOT NULL,
    updated_at        bigint NOT NULL
) WITH (fillfactor = 70, autovacuum_analyze_threshold = 1000);
CREATE INDEX payment_order ON payment (shop, order_id);

-- The plural, because "order" is a word of SQL.
CREATE TABLE orders (
    id             text COLLATE "C" PRIMARY KEY,
    shop           text COLLATE "C" NOT NULL,
    order_id       text COLLATE "C" NOT NULL,
    total_value    bigint NOT NULL,
    total_currency text COLLATE "C" NOT NULL,
    fulfillment    text COLLATE "C" NOT NULL,
    revocations    integer NOT NULL,
    shipped_at     bigint NOT NULL,
    audit_version  bigint NOT NULL,
    audit_hash     bytea NOT NULL,
    created_at     bigint NOT NULL,
    updated_at     bigint NOT NULL,
    CONSTRAINT orders_key UNIQUE (shop, order_id)
) WITH (fillfactor = 70, autovacuum_analyze_threshold = 1000);

-- number is the order of storage in a payment, whose row is locked meanwhile.
CREATE TABLE fact (
    account   text COLLATE "C" NOT NULL,
    mode      text COLLATE "C" NOT NULL,
    connected text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    variant   text COLLATE "C" NOT NULL,
    payment   text COLLATE "C" NOT NULL,
    number    bigint GENERATED ALWAYS AS IDENTITY,
    fact      text NOT NULL,
    entry     text COLLATE "C" NOT NULL,
    at        bigint NOT NULL,
    PRIMARY KEY (key, variant, account, mode, connected) -- what tells most apart comes first
);
CREATE INDEX fact_payment ON fact (payment, number);

CREATE TABLE effect (
    subject  text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    type     text COLLATE "C" NOT NULL,
    decision text COLLATE "C" NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (subject, key)
);

CREATE TABLE message (
    id           text COLLATE "C" PRIMARY KEY,
    destination  text COLLATE "C" NOT NULL,
    type         text COLLATE "C" NOT NULL,
    account      text COLLATE "C" NOT NULL,
    payment      text COLLATE "C" NOT NULL,
    order_id     text COLLATE "C" NOT NULL,
    cause        text COLLATE "C" NOT NULL,
    lane         text COLLATE "C" NOT NULL,
    sequence     bigint NOT NULL,
    body         bytea NOT NULL,
    header       bytea NOT NULL,
    state        text COLLATE "C" NOT NULL,
    attempts     integer NOT NULL,
    last_error   text NOT NULL,
    created_at   bigint NOT NULL,
    delivered_at bigint NOT NULL
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX message_cause ON message (destination, cause) WHERE cause <> '';
CREATE INDEX message_payment ON message (payment) WHERE payment <> '';
CREATE INDEX message_dead ON message (id) WHERE state = 'dead';

CREATE TABLE attempt (
    id       text COLLATE "C" PRIMARY KEY,
    message  text COLLATE "C" NOT NULL,
    number   integer NOT NULL,
    at       bigint NOT NULL,
    duration bigint NOT NULL,
    status   integer NOT NULL,
    verdict  text COLLATE "C" NOT NULL,
    error    text NOT NULL
);
CREATE INDEX attempt_message ON attempt (message, number);

CREATE TABLE exception (
    id                text COLLATE "C" PRIMARY KEY,
    kind              text COLLATE "C" NOT NULL,
    condition         text COLLATE "C" NOT NULL CONSTRAINT exception_condition UNIQUE,
    subject           text COLLATE "C" NOT NULL,
    reason            text COLLATE "C" NOT NULL,
    state             text COLLATE "C" NOT NULL,
    account           text COLLATE "C" NOT NULL,
    event             text COLLATE "C" NOT NULL,
    provider_event_id text COLLATE "C" NOT NULL,
    payment           text COLLATE "C" NOT NULL,
    order_id          text COLLATE "C" NOT NULL,
    operation         text COLLATE "C" NOT NULL,
    message           text COLLATE "C" NOT NULL,
    urgency           text COLLATE "C" NOT NULL,
    amount_value      bigint NOT NULL,
    amount_currency   text COLLATE "C" NOT NULL,
    detail            bytea NOT NULL,
    opened_at         bigint NOT NULL,
    updated_at        bigint NOT NULL,
    closed_at         bigint NOT NULL,
    closing           text NOT NULL
);
CREATE INDEX exception_subject ON exception (subject);
CREATE INDEX exception_open ON exception (kind) WHERE state IN ('open', 'acknowledged');

CREATE TABLE audit (
    id      text COLLATE "C" PRIMARY KEY,
    subject text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    action  text COLLATE "C" NOT NULL,
    actor   text COLLATE "C" NOT NULL,
    entry   text COLLATE "C" NOT NULL,
    detail  bytea NOT NULL,
    at      bigint NOT NULL,
    prev    bytea NOT NULL,
    hash    bytea NOT NULL,
    CONSTRAINT audit_version UNIQUE (subject, version)
);

-- The heads of subjects that have no row of their own to keep it in.
CREATE TABLE audit_head (
    subject text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    hash    bytea NOT NULL
);

CREATE TABLE idempotency_key (
    principal   text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    route       text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    state       text COLLATE "C" NOT NULL,
    status      integer NOT NULL,
    header      bytea NOT NULL,
    body        bytea NOT NULL,
    token       text COLLATE "C" NOT NULL,
    lease_at    bigint NOT NULL,
    created_at  bigint NOT NULL,
    expires_at  bigint NOT NULL,
    PRIMARY KEY (principal, key)
);
CREATE INDEX idempotency_key_expiry ON idempotency_key (expires_at);

CREATE TABLE token (
    id         text COLLATE "C" PRIMARY KEY,
    name       text NOT NULL,
    role       text COLLATE "C" NOT NULL,
    hash       bytea NOT NULL CONSTRAINT token_hash UNIQUE,
    created_at bigint NOT NULL,
    last_used  bigint NOT NULL,
    revoked_at bigint NOT NULL
);

CREATE TABLE setting (
    key   text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
