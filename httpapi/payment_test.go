package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/unavez/unavez/httpapi"
)

func TestRegister(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		body := `{"order":"A-1","account":"acc","amount":{"value":4800,"currency":"EUR"},"references":["pi_1"],"fulfill_on":"captured"}`
		first := h.post("/v1/payments", body)
		p := first.ok(http.StatusCreated)
		expect(t, "state", p["state"], "expected")
		expect(t, "amount", p["amount"], map[string]any{"value": 4800.0, "currency": "EUR"})
		expect(t, "fulfillment", p["fulfillment"], "none")
		expect(t, "Location", first.header.Get("Location"), "/v1/payments/"+text(p, "id"))
		expect(t, "captured", p["totals"].(map[string]any)["captured"], map[string]any{"value": 0.0, "currency": "EUR"})
		if !strings.HasSuffix(text(p, "created_at"), "Z") {
			t.Fatalf("created_at %v is not UTC", p["created_at"])
		}

		again := h.ask(http.MethodPost, "/v1/payments", body, key("one")).ok(http.StatusOK)
		other := h.ask(http.MethodPost, "/v1/payments", body, key("two")).ok(http.StatusOK)
		expect(t, "the same again", again["id"], p["id"])
		expect(t, "under another key", other["id"], p["id"])
		expect(t, "read", h.get("/v1/payments/" + text(p, "id")).ok(http.StatusOK)["id"], p["id"])
		h.get("/v1/payments/pay_none").refused(httpapi.CodeNotFound, http.StatusNotFound)

		for _, c := range []struct{ change, body, pointer string }{
			{"amount", `{"order":"A-1","account":"acc","amount":{"value":4801,"currency":"EUR"},"references":["pi_1"]}`, "/amount"},
			{"order", `{"order":"A-2","account":"acc","amount":{"value":4800,"currency":"EUR"},"references":["pi_1"]}`, "/order"},
			{"rule", `{"order":"A-1","account":"acc","amount":{"value":4800,"currency":"EUR"},"references":["pi_1"],"amount_rule":"up_to"}`, "/amount_rule"},
			{"fulfill_on", `{"order":"A-1","account":"acc","amount":{"value":4800,"currency":"EUR"},"references":["pi_1"],"fulfill_on":"authorized"}`, "/fulfill_on"},
			{"total", `{"order":"A-1","account":"acc","amount":{"value":4800,"currency":"EUR"},"references":["pi_1"],"order_total":{"value":9999,"currency":"EUR"}}`, "/order_total"},
			{"currency", `{"order":"A-1","account":"acc","amount":{"value":4800,"currency":"USD"},"references":["pi_3"]}`, "/amount/currency"},
		} {
			a := h.post("/v1/payments", c.body)
			v := a.refused(httpapi.CodePaymentConflict, http.StatusConflict)
			expect(t, c.change, pointers(v), []string{c.pointer})
			for _, value := range []string{"4800", "4801", "9999", "A-1", "A-2", "pi_1"} {
				if strings.Contains(string(a.body), value) {
					t.Fatalf("%s: the problem repeats %s: %s", c.change, value, a.body)
				}
			}
		}
		expect(t, "payments", len(h.get("/v1/payments").items(http.StatusOK)), 1)
	})
}

// Amounts are exact: what a double cannot hold is kept, and what is no whole
// number of minor units is refused, with the place and without the value.
func TestRegisterRefuses(t *testing.T) {
	h := onSQLite(t)
	money := func(value string) string {
		return `{"order":"B","account":"acc","amount":{"value":` + value + `,"currency":"EUR"},"references":["pi_b"]}`
	}
	for name, c := range map[string]struct {
		body    string
		code    httpapi.Code
		pointer string
	}{
		"fraction":                 {money("5.1"), httpapi.CodeInvalid, "/amount"},
		"whole with point":         {money("510.0"), httpapi.CodeInvalid, "/amount"},
		"exponent":                 {money("1e3"), httpapi.CodeInvalid, "/amount"},
		"text":                     {money(`"510"`), httpapi.CodeInvalid, "/amount"},
		"boolean":                  {money("true"), httpapi.CodeInvalid, "/amount"},
		"null value":               {money("null"), httpapi.CodeInvalid, "/amount"},
		"beyond int64":             {money("9223372036854775808"), httpapi.CodeInvalid, "/amount"},
		"far beyond":               {money("1" + strings.Repeat("0", 400)), httpapi.CodeInvalid, "/amount"},
		"negative":                 {money("-1"), httpapi.CodeInvalid, "/amount"},
		"zero":                     {money("0"), httpapi.CodeInvalid, "/amount"},
		"minus zero":               {money("-0"), httpapi.CodeInvalid, "/amount"},
		"unknown currency":         {strings.Replace(money("5"), "EUR", "XXY", 1), httpapi.CodeInvalid, "/amount"},
		"lower case currency":      {strings.Replace(money("5"), "EUR", "eur", 1), httpapi.CodeInvalid, "/amount"},
		"bare amount":              {`{"order":"B","account":"acc","amount":4800}`, httpapi.CodeInvalid, "/amount"},
		"amount missing":           {`{"order":"B","account":"acc"}`, httpapi.CodeInvalid, "/amount"},
		"amount null":              {`{"order":"B","account":"acc","amount":null}`, httpapi.CodeInvalid, "/amount"},
		"amount with more members": {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR","x":1}}`, httpapi.CodeInvalid, "/amount"},
		"amount without currency":  {`{"order":"B","account":"acc","amount":{"value":5}}`, httpapi.CodeInvalid, "/amount"},
		"order missing":            {`{"account":"acc","amount":{"value":5,"currency":"EUR"}}`, httpapi.CodeInvalid, "/order"},
		"order is a number":        {`{"order":5,"account":"acc","amount":{"value":5,"currency":"EUR"}}`, httpapi.CodeInvalid, "/order"},
		"account missing":          {`{"order":"B","amount":{"value":5,"currency":"EUR"}}`, httpapi.CodeInvalid, "/account"},
		"account unknown":          {`{"order":"B","account":"nobody","amount":{"value":5,"currency":"EUR"}}`, httpapi.CodeInvalid, "/account"},
		"total of zero":            {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR"},"order_total":{"value":0,"currency":"EUR"}}`, httpapi.CodeInvalid, "/order_total"},
		"total in other currency":  {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR"},"order_total":{"value":5,"currency":"USD"}}`, httpapi.CodeInvalid, "/order_total"},
		"rule unknown":             {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR"},"amount_rule":"about"}`, httpapi.CodeInvalid, "/amount_rule"},
		"fulfill_on unknown":       {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR"},"fulfill_on":"hope"}`, httpapi.CodeInvalid, "/fulfill_on"},
		"references a text":        {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR"},"references":"pi_1"}`, httpapi.CodeInvalid, "/references"},
		"reference a number":       {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR"},"references":["pi",7]}`, httpapi.CodeInvalid, "/references/1"},
		"reference empty":          {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR"},"references":[""]}`, httpapi.CodeInvalid, "/references"},
		"control character":        {`{"order":"a\u0000b","account":"acc","amount":{"value":5,"currency":"EUR"}}`, httpapi.CodeInvalid, "/order"},
		"unknown member":           {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR"},"priority":1}`, httpapi.CodeInvalid, "/priority"},
		"member in capitals":       {`{"Order":"B","account":"acc","amount":{"value":5,"currency":"EUR"}}`, httpapi.CodeInvalid, ""},
		"actor in the body":        {`{"order":"B","account":"acc","amount":{"value":5,"currency":"EUR"},"actor":"boss"}`, httpapi.CodeInvalid, "/actor"},
		"member twice":             {`{"order":"B","order":"C","account":"acc","amount":{"value":5,"currency":"EUR"}}`, httpapi.CodeMalformed, "/order"},
		"amount's member twice":    {`{"order":"B","account":"acc","amount":{"value":5,"value":6,"currency":"EUR"}}`, httpapi.CodeMalformed, "/amount/value"},
		"invalid UTF-8":            {"{\"order\":\"\xff\",\"account\":\"acc\",\"amount\":{\"value\":5,\"currency\":\"EUR\"}}", httpapi.CodeMalformed, "/order"},
		"no JSON":                  {`order=B`, httpapi.CodeMalformed, "none"},
		"cut off":                  {`{"order":"B"`, httpapi.CodeMalformed, ""},
		"two values":               {money("5") + money("5"), httpapi.CodeMalformed, ""},
		"a list":                   {`[` + money("5") + `]`, httpapi.CodeMalformed, "none"},
		"nothing":                  {``, httpapi.CodeMalformed, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			a := h.post("/v1/payments", c.body)
			v := a.refused(c.code, http.StatusBadRequest)
			want := []string{c.pointer}
			if c.pointer == "none" {
				want = nil
			}
			if got := pointers(v); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("pointers %q, want %q: %s", got, want, a.body)
			}
		})
	}
	h.t = t
	expect(t, "payments", len(h.get("/v1/payments").items(http.StatusOK)), 0)
}

func TestLargeAmountsAreExact(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		for i, value := range []string{"1", "9007199254740993", "9223372036854775807"} {
			a := h.post("/v1/payments", fmt.Sprintf(`{"order":"L-%d","account":"acc","amount":{"value":%s,"currency":"JPY"}}`, i, value))
			id := text(a.ok(http.StatusCreated), "id")
			for _, body := range []string{string(a.body), string(h.get("/v1/payments/" + id).body), string(h.get(fmt.Sprintf("/v1/orders/L-%d", i)).body)} {
				if !strings.Contains(body, `{"value":`+value+`,"currency":"JPY"}`) {
					t.Fatalf("%s is not repeated exactly: %s", value, body)
				}
			}
		}
	})
}

func TestBodyBounds(t *testing.T) {
	h := onSQLite(t)
	body := func(n int) string {
		head := `{"order":"`
		return head + strings.Repeat("x", n-len(head)-2) + `"}`
	}
	h.post("/v1/payments", body(64<<10)).refused(httpapi.CodeInvalid, http.StatusBadRequest)
	h.post("/v1/payments", body(64<<10+1)).refused(httpapi.CodeTooLarge, http.StatusRequestEntityTooLarge)
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", ""} {
		h.ask(http.MethodPost, "/v1/payments", "{}", with("Content-Type", kind)).refused(httpapi.CodeUnsupportedMedia, http.StatusUnsupportedMediaType)
	}
	h.ask(http.MethodPost, "/v1/payments", "{}", with("Content-Type", "application/json; charset=UTF-8")).refused(httpapi.CodeInvalid, http.StatusBadRequest)
}

// R5.1: of twenty equal requests at once one registers the payment; the others
// get its answer or are told to wait. There is one payment.
func TestConcurrentRegistrations(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		body := `{"order":"C","account":"acc","amount":{"value":4800,"currency":"EUR"},"references":["pi_c"]}`
		const n = 20
		answers := make([]*answer, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { answers[i] = h.ask(http.MethodPost, "/v1/payments", body, key("same")) })
		}
		all.Wait()
		made := 0
		var id string
		for _, a := range answers {
			switch {
			case a.status == http.StatusConflict:
				a.refused(httpapi.CodeKeyInProgress, http.StatusConflict)
			case a.status == http.StatusCreated:
				if a.header.Get("Idempotent-Replayed") == "" {
					made++
				}
				if id == "" {
					id = text(a.ok(http.StatusCreated), "id")
				}
				expect(t, "id", text(a.ok(http.StatusCreated), "id"), id)
			default:
				t.Fatalf("status %d: %s", a.status, a.body)
			}
		}
		expect(t, "answers that were not replayed", made, 1)
		expect(t, "payments", len(h.get("/v1/payments").items(http.StatusOK)), 1)

		// Without keys, and under different ones, it is the same payment too.
		for i := range n {
			all.Go(func() { answers[i] = h.ask(http.MethodPost, "/v1/payments", body, key(fmt.Sprint("k", i%2*i))) })
		}
		all.Wait()
		expect(t, "payments", len(h.get("/v1/payments").items(http.StatusOK)), 1)
	})
}
