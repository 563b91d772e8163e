package naive

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/internal/pgtest"
)

const secret = "whsec_naive"

var at = time.Unix(1_790_000_000, 0)

func sign(body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}

func post(h http.Handler, body, signature string) int {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/stripe", strings.NewReader(body))
	r.Header.Set("Stripe-Signature", signature)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func captured(event, payment string) string {
	return fmt.Sprintf(`{"id":%q,"type":"payment_intent.succeeded","data":{"object":{"id":%q,"amount_received":4800,"currency":"eur"}}}`, event, payment)
}

// The baseline does its work, once for each event, or the comparison is void.
func TestWork(t *testing.T) {
	url := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), Schema+`;
INSERT INTO payment (id, order_id, amount, currency, state, updated_at) VALUES ('pi_1', 'o1', 4800, 'eur', 'expected', now()), ('pi_2', 'o2', 5000, 'eur', 'expected', now())`); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), url, secret, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	good, other := captured("evt_1", "pi_1"), captured("evt_2", "pi_2")
	for _, c := range []struct {
		name, body, signature string
		status                int
	}{
		{"new", good, sign(good), http.StatusOK},
		{"again", good, sign(good), http.StatusOK},
		{"signature of another body", good, sign(other), http.StatusBadRequest},
		{"no signature", good, "", http.StatusBadRequest},
		{"no JSON", "{", sign("{"), http.StatusBadRequest},
		{"another amount", other, sign(other), http.StatusInternalServerError},
	} {
		if got := post(h, c.body, c.signature); got != c.status {
			t.Errorf("%s: status %d, want %d", c.name, got, c.status)
		}
	}
	var events, messages, paid int
	if err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM event), (SELECT count(*) FROM outbox),
(SELECT count(*) FROM payment WHERE state = 'captured' AND captured = 4800 AND id = 'pi_1')`).Scan(&events, &messages, &paid); err != nil {
		t.Fatal(err)
	}
	if events != 1 || messages != 1 || paid != 1 {
		t.Errorf("%d events, %d messages, %d payments captured; want one of each", events, messages, paid)
	}
}
