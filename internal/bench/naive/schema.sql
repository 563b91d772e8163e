CREATE TABLE payment (
    id         text PRIMARY KEY,
    order_id   text NOT NULL,
    amount     bigint NOT NULL,
    currency   text NOT NULL,
    state      text NOT NULL,
    captured   bigint NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL
);
CREATE TABLE event (
    id          text PRIMARY KEY,
    type        text NOT NULL,
    payment     text NOT NULL,
    body        bytea NOT NULL,
    received_at timestamptz NOT NULL
);
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment    text NOT NULL,
    type       text NOT NULL,
    body       text NOT NULL,
    created_at timestamptz NOT NULL
);
