package httpapi_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/store/storetest"

	"github.com/unavez/unavez/store"
)

const registration = `{"order":"K","account":"acc","amount":{"value":4800,"currency":"EUR"},"references":["pi_k"]}`

// R5.1 R5.2: the API's own requests under an Idempotency-Key: replayed exactly,
// refused for another payload, scoped to the caller, gone after their time.
func TestKeys(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		send := func(k, body string, change ...func(*http.Request)) *answer {
			return h.ask(http.MethodPost, "/v1/payments", body, append([]func(*http.Request){key(k)}, change...)...)
		}
		first := send("k1", registration)
		first.ok(http.StatusCreated)
		again := send(`"k1"`, " "+registration)
		if again.status != first.status || !bytes.Equal(again.body, first.body) || again.header.Get("Location") != first.header.Get("Location") ||
			again.header.Get("Idempotent-Replayed") != "true" || again.header.Get("Content-Type") != first.header.Get("Content-Type") {
			t.Fatalf("the replay differs: %d %v %s", again.status, again.header, again.body)
		}
		if again.header.Get("X-Request-Id") == first.header.Get("X-Request-Id") {
			t.Fatal("two requests have one id")
		}
		other := `{"order":"K","account":"acc","amount":{"value":4801,"currency":"EUR"},"references":["pi_k"]}`
		send("k1", other).refused(httpapi.CodeKeyReused, http.StatusUnprocessableEntity)
		h.ask(http.MethodPost, "/v1/orders/K/fulfilled", "", key("k1")).refused(httpapi.CodeKeyReused, http.StatusUnprocessableEntity)
		send("k1", registration, as(operateToken)).ok(http.StatusOK)
		send("clé", registration).refused(httpapi.CodeKeyMalformed, http.StatusBadRequest)
		send("k1", registration, as("nobody")).refused(httpapi.CodeUnauthenticated, http.StatusUnauthorized)
		send("k1", registration, as(readToken)).refused(httpapi.CodeForbidden, http.StatusForbidden)

		// What was refused can be mended under the same key.
		send("k2", other).refused(httpapi.CodePaymentConflict, http.StatusConflict)
		send("k2", `{"order":"K"}`).refused(httpapi.CodeInvalid, http.StatusBadRequest)
		send("k2", registration).ok(http.StatusOK)

		h.advance(24 * time.Hour)
		send("k1", registration).refused(httpapi.CodeKeyExpired, http.StatusGone)
		h.advance(24 * time.Hour)
		send("k1", registration).ok(http.StatusOK)
	})
}

// R5.1: a commit whose result is unknown is not taken for failure: the request
// is sent again and finds what was stored.
func TestUnknownCommit(t *testing.T) {
	fault := storetest.NewFault(openSQLite(t))
	h := newHouse(t, fault, nil)
	fault.Arm(storetest.Rule{Call: storetest.CallCommit, Nth: 1, After: true, Err: store.ErrCommitUnknown})
	h.post("/v1/payments", registration).refused(httpapi.CodeResultUnknown, http.StatusServiceUnavailable)
	h.post("/v1/payments", registration).ok(http.StatusOK)

	// The same with a key: the handler's change is stored and its answer is not.
	fault.Arm(storetest.Rule{Call: "PutKey", Nth: 1, Err: store.ErrUnavailable})
	h.ask(http.MethodPost, "/v1/orders/K/fulfilled", "", key("k")).refused(httpapi.CodeUnavailable, http.StatusServiceUnavailable)
	fault.Arm()
	h.ask(http.MethodPost, "/v1/orders/K/fulfilled", "", key("k")).refused(httpapi.CodeKeyInProgress, http.StatusConflict)
	h.advance(time.Minute)
	h.ask(http.MethodPost, "/v1/orders/K/fulfilled", "", key("k")).ok(http.StatusOK)
	expect(t, "shipped once", len(h.get("/v1/audit?action=order.shipped").items(http.StatusOK)), 1)
}

// Faults of the ledger are answers that say whether to try again.
func TestFaultsOfTheLedger(t *testing.T) {
	fault := storetest.NewFault(openSQLite(t))
	h := newHouse(t, fault, nil)
	for _, c := range []struct {
		err  error
		code httpapi.Code
	}{
		{store.ErrUnavailable, httpapi.CodeUnavailable}, {store.ErrBusy, httpapi.CodeUnavailable}, {store.ErrFull, httpapi.CodeUnavailable},
	} {
		fault.Arm(storetest.Rule{Call: storetest.CallView, Nth: 1, Err: c.err})
		h.get("/v1/payments").refused(c.code, http.StatusServiceUnavailable)
		fault.Arm(storetest.Rule{Call: storetest.CallView, Nth: 1, Err: c.err})
		h.ask(http.MethodGet, "/v1/payments", "", as("uvz_of_the_ledger")).refused(c.code, http.StatusServiceUnavailable)
	}
	fault.Arm()
	h.get("/v1/payments").items(http.StatusOK)
}
