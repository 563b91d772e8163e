package naive

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ConnsMax is the size of the pool.
const ConnsMax = 32

const (
	bodyBytesMax = 1 << 20
	tolerance    = 5 * time.Minute
)

// Schema creates the tables in an empty database.
//
//go:embed schema.sql
var Schema string

// Handler answers 200 when an event's whole work is committed or was before,
// 400 to what is not authentic, 500 to what could not be done.
type Handler struct {
	pool   *pgxpool.Pool
	secret []byte
	now    func() time.Time
}

// New connects to the database with the URL. Close the handler in the end.
func New(ctx context.Context, url, secret string, now func() time.Time) (*Handler, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("naive: reading the database's URL: %w", err)
	}
	config.MaxConns = ConnsMax
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("naive: opening the pool: %w", err)
	}
	return &Handler{pool: pool, secret: []byte(secret), now: now}, nil
}

// Close waits for open transactions.
func (h *Handler) Close() { h.pool.Close() }

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
	if err != nil || !h.authentic(r.Header.Get("Stripe-Signature"), body) {
		http.Error(w, "not authentic", http.StatusBadRequest)
		return
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		http.Error(w, "not an event", http.StatusBadRequest)
		return
	}
	err = pgx.BeginFunc(r.Context(), h.pool, func(tx pgx.Tx) error { return h.work(r.Context(), tx, &e, body) })
	if err != nil {
		http.Error(w, "not stored", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusOK)
}

type event struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		Object struct {
			ID       string `json:"id"`
			Received int64  `json:"amount_received"`
			Currency string `json:"currency"`
		} `json:"object"`
	} `json:"data"`
}

var errMismatch = errors.New("naive: amount or currency differ from the record")

func (h *Handler) work(ctx context.Context, tx pgx.Tx, e *event, body []byte) error {
	now, object := h.now(), &e.Data.Object
	tag, err := tx.Exec(ctx, `INSERT INTO event (id, type, payment, body, received_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING`, e.ID, e.Type, object.ID, body, now)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	var amount int64
	var currency string
	err = tx.QueryRow(ctx, `SELECT amount, currency FROM payment WHERE id = $1 FOR UPDATE`, object.ID).Scan(&amount, &currency)
	if err != nil {
		return fmt.Errorf("locking payment %s: %w", object.ID, err)
	}
	if amount != object.Received || !strings.EqualFold(currency, object.Currency) {
		return errMismatch
	}
	_, err = tx.Exec(ctx, `UPDATE payment SET state = 'captured', captured = $2, updated_at = $3 WHERE id = $1`,
		object.ID, object.Received, now)
	if err != nil {
		return fmt.Errorf("updating payment %s: %w", object.ID, err)
	}
	message := fmt.Sprintf(`{"type":"payment.captured","payment":%q,"amount":{"value":%d,"currency":%q}}`, object.ID, amount, currency)
	_, err = tx.Exec(ctx, `INSERT INTO outbox (payment, type, body, created_at) VALUES ($1, 'payment.captured', $2, $3)`,
		object.ID, message, now)
	return err
}

// authentic checks a header of one time and any number of signatures.
func (h *Handler) authentic(header string, body []byte) bool {
	var stamp string
	var macs []string
	for part := range strings.SplitSeq(header, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "t":
			stamp = value
		case "v1":
			macs = append(macs, value)
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || h.now().Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, h.secret)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	want := hex.EncodeToString(mac.Sum(nil))
	for _, got := range macs {
		if hmac.Equal([]byte(want), []byte(got)) {
			return true
		}
	}
	return false
}
