package simulator

import (
	"net/http"
	"testing"
)

func TestControlCalls(t *testing.T) {
	sh := newShop(t, nil)
	w := newWorld(t, Config{ControlToken: "secret"}).started()
	call := func(method, path, body string) answer {
		t.Helper()
		a, err := w.try(t.Context(), method, "/_simulator/"+path, body, "Authorization", "Bearer secret")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := w.get("/_simulator/books"); a.status != http.StatusUnauthorized {
		t.Fatal(a.raw)
	}
	w.ok(call("PUT", "endpoints", `[{"url":"`+sh.url+`","secrets":["whsec_x"],"types":["payment_intent.*"]}]`))
	if a := w.ok(call("GET", "endpoints", "")); a.raw == "" || len(a.body["data"].([]any)) != 1 {
		t.Fatal(a.raw)
	}
	flt := w.ok(call("POST", "faults", `{"kind":"error_before","path":"/v1/refunds","times":1}`))
	in := w.pay(paid, "Idempotency-Key", "k1")
	if a := w.post("/v1/refunds", "payment_intent="+in.str("id")); a.status != 500 {
		t.Fatal(a.raw)
	}
	list := w.ok(call("GET", "faults", ""))
	if rows := list.rows(); len(rows) != 1 || rows[0]["id"] != flt.str("id") || rows[0]["hits"] != float64(1) || rows[0]["kind"] != "error_before" {
		t.Fatal(list.raw)
	}
	w.ok(call("DELETE", "faults/"+flt.str("id"), ""))
	if a := call("DELETE", "faults/"+flt.str("id"), ""); a.status != 404 {
		t.Fatal(a.raw)
	}
	w.ok(call("DELETE", "faults", ""))
	made := w.ok(call("POST", "trigger", `{"type":"dispute.open","payment_intent":"`+in.str("id")+`","amount":1000}`))
	if made.str("object") == "" || len(made.body["events"].([]any)) != 2 {
		t.Fatal(made.raw)
	}
	w.ok(call("POST", "flush", ""))
	w.drain()
	counts := w.ok(call("GET", "deliveries", ""))
	if counts.num("acknowledged") != 2 || counts.num("pending") != 0 || counts.num("events") != 5 {
		t.Fatal(counts.raw)
	}
	books := w.ok(call("GET", "books", ""))
	totals, _ := books.body["totals"].(object)
	captured, _ := totals["captured"].(object)
	withdrawn, _ := totals["dispute_withdrawn"].(object)
	if captured["EUR"] != float64(4800) || withdrawn["EUR"] != float64(1000) || len(books.body["movements"].([]any)) != 3 {
		t.Fatal(books.raw)
	}
	if a := w.ok(call("GET", "books?movements=false", "")); len(a.body["movements"].([]any)) != 0 || a.body["net"] == nil {
		t.Fatal(a.raw)
	}
	if a := w.ok(call("POST", "forget", `{"key":"k1"}`)); a.num("forgotten") != 1 {
		t.Fatal(a.raw)
	}
	if a := w.ok(call("POST", "release", "")); a.num("released") != 0 {
		t.Fatal(a.raw)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "faults", `{"kind":"nonsense"}`, 400},
		{"POST", "faults", `{"kind":"hang","tmies":1}`, 400},
		{"POST", "faults", `{"kind":"hang","kind":"late"}`, 400},
		{"POST", "trigger", `{"type":"dispute.open","payment_intent":"pi_none"}`, 404},
		{"POST", "trigger", `nonsense`, 400},
		{"PUT", "endpoints", `[{"url":"file:///etc"}]`, 400},
		{"GET", "nothing", "", 404},
	} {
		if a := call(c.method, c.path, c.body); a.status != c.status || a.str("error") == "" {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.status, a.raw)
		}
	}
}
