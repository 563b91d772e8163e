package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// column returns one member of each item.
func column(items []map[string]any, name string) []string {
	out := []string{}
	for _, i := range items {
		out = append(out, text(i, name))
	}
	return out
}

func TestPaymentAndOrder(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.register("A-1", "pi_1")
		h.receive(captured("evt_1", "pi_1", 4800))
		paid := h.get("/v1/payments/" + text(p, "id")).ok(http.StatusOK)
		expect(t, "state", paid["state"], "captured")
		expect(t, "fulfillment", paid["fulfillment"], "sent")
		expect(t, "refundable", paid["totals"].(map[string]any)["refundable"], map[string]any{"currency": "EUR", "value": 4800.0})

		// A second payment of the order is money beyond its total.
		h.register("A-1", "pi_2")
		h.receive(captured("evt_2", "pi_2", 4800))
		o := h.get("/v1/orders/A-1").ok(http.StatusOK)
		for name, value := range map[string]float64{"total": 4800, "captured": 9600, "refunded": 0, "surplus": 4800} {
			expect(t, name, o[name], map[string]any{"currency": "EUR", "value": value})
		}
		expect(t, "shop", o["shop"], "default")
		expect(t, "payments", len(o["payments"].([]any)), 2)
		expect(t, "state of the first", o["payments"].([]any)[0].(map[string]any)["state"], "captured")
		expect(t, "surplus", len(h.get("/v1/exceptions?kind=surplus&order=A-1").items(http.StatusOK)), 1)

		h.get("/v1/orders/A-1?shop=two").refused(httpapi.CodeNotFound, http.StatusNotFound)
		h.get("/v1/orders/none").refused(httpapi.CodeNotFound, http.StatusNotFound)
		h.post("/v1/orders/none/fulfilled", "").refused(httpapi.CodeNotFound, http.StatusNotFound)
		shipped := h.ask(http.MethodPost, "/v1/orders/A-1/fulfilled", "", as(operateToken)).ok(http.StatusOK)
		if text(shipped, "fulfilled_at") == "" {
			t.Fatalf("fulfilled_at is missing: %v", shipped)
		}
		again := h.post("/v1/orders/A-1/fulfilled", "{}").ok(http.StatusOK)
		expect(t, "shipped again", again["fulfilled_at"], shipped["fulfilled_at"])
		rows := h.get("/v1/audit?action=order.shipped").items(http.StatusOK)
		expect(t, "who said so", column(rows, "actor"), []string{"operator"})
		h.post("/v1/orders/A-1/fulfilled", `{"actor":"x"}`).refused(httpapi.CodeInvalid, http.StatusBadRequest)
	})
}

// An order's id is the merchant's own text.
func TestOrderIDsAreAnyText(t *testing.T) {
	h := onSQLite(t)
	for path, order := range map[string]string{"a%2Fb%20c": "a/b c", "%C3%B1and%C3%BA%3F": "ñandú?"} {
		h.register(order, "pi_"+order)
		expect(t, path, h.get("/v1/orders/" + path).ok(http.StatusOK)["id"], order)
	}
}

// Lists are newest first, in pages that join without a gap or a repetition.
func TestPages(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		var ids, orders []string
		for i := range 7 {
			order := fmt.Sprintf("P-%d", i)
			ids = append(ids, text(h.register(order, "pi_"+order), "id"))
			orders = append(orders, order)
		}
		slices.Reverse(ids)
		slices.Reverse(orders)
		for path, want := range map[string][]string{"/v1/payments": ids, "/v1/orders": orders} {
			var got []string
			after := ""
			for _, more := range []bool{true, true, false} {
				page := h.get(path+"?limit=3"+after).list(http.StatusOK, more)
				got = append(got, column(page, "id")...)
				after = "&starting_after=" + got[len(got)-1]
			}
			expect(t, path, got, want)
			expect(t, path+" after the end", len(h.get(path+"?limit=3"+after).list(http.StatusOK, false)), 0)
			expect(t, path+" exactly full", len(h.get(path+"?limit=7").list(http.StatusOK, false)), 7)
		}
	})
}

// Every filter that the document names selects, on both stores.
func TestFilters(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.register("F-1", "pi_1")
		h.register("F-2", "pi_2")
		events := h.receive(captured("evt_1", "pi_1", 4800), provider.Event{Identity: "evt_2", Type: "unknown.thing", Mode: provider.Live})
		id := text(p, "id")
		for path, want := range map[string][]string{
			"/v1/payments?account=acc&mode=live&order=F-1&shop=default&state=captured&dispute=none&adopted=false": {id},
			"/v1/payments?account=other":            {},
			"/v1/payments?mode=test":                {},
			"/v1/payments?shop=two":                 {},
			"/v1/payments?state=expected&order=F-1": {},
			"/v1/payments?dispute=open":             {},
			"/v1/payments?adopted=true":             {},
			"/v1/orders?fulfillment=sent":           {"F-1"},
			"/v1/orders?fulfillment=none":           {"F-2"},
			"/v1/orders?shop=two":                   {},
			"/v1/events?account=acc&mode=live&type=charge.captured&state=processed&outcome=applied&payment=" + id + "&provider_event_id=evt_1&source=webhook": {events[0]},
			"/v1/events?order=F-1":         {events[0]},
			"/v1/events?outcome=ignored":   {events[1]},
			"/v1/events?variant_of=evt_no": {},
			"/v1/events?source=report":     {},
			"/v1/exceptions?kind=surplus":  {},
		} {
			expect(t, path, column(h.get(path).items(http.StatusOK), "id"), want)
		}
		for _, path := range []string{
			"/v1/messages?destination=shop&type=order.fulfill&state=pending&payment=" + id + "&order=F-1",
			"/v1/audit?action=payment.registered&actor=chief&subject=" + id,
		} {
			expect(t, path, len(h.get(path).items(http.StatusOK)), 1)
		}
		for _, filter := range []string{"state=open", "account=acc", "event=e", "provider_event_id=e", "payment=p", "order=o", "operation=o", "message=m"} {
			h.get("/v1/exceptions?" + filter).items(http.StatusOK)
		}
	})
}

// R9.4: the bytes of an event are those that came, whatever they are.
func TestPayloadIsExact(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		raw := []byte("{\"n\":9007199254740993.0,\"z\":\"\x00\xff<script>\"}\r\n ")
		id := h.receiveRaw(provider.Event{Identity: "evt_raw"}, raw)
		a := h.get("/v1/events/" + id + "/payload")
		if a.status != http.StatusOK || !bytes.Equal(a.body, raw) {
			t.Fatalf("status %d, bytes %q, want %q", a.status, a.body, raw)
		}
		digest := sha256.Sum256(raw)
		for name, want := range map[string]string{
			"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment",
			"Repr-Digest": "sha-256=:" + base64.StdEncoding.EncodeToString(digest[:]) + ":",
		} {
			expect(t, name, a.header.Get(name), want)
		}
		h.get("/v1/events/evt_none/payload").refused(httpapi.CodeNotFound, http.StatusNotFound)
		h.get("/v1/events/evt_none").refused(httpapi.CodeNotFound, http.StatusNotFound)
		dead := h.get("/v1/events/" + id).ok(http.StatusOK)
		expect(t, "state", dead["state"], "dead")
		if text(dead, "error") == "" || text(dead, "processed_at") == "" || dead["deliveries"] != 1.0 {
			t.Fatalf("the event lacks what a person needs: %v", dead)
		}
	})
}

// R9.4: a dead event is redriven with a reason, once; who and why is recorded.
func TestRedrive(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		id := h.receiveRaw(provider.Event{Identity: "evt_dead"}, []byte("not understood"))
		path := "/v1/events/" + id + "/redrive"
		for body, pointer := range map[string]string{`{}`: "/reason", `{"reason":" "}`: "/reason", `{"reason":"` + strings.Repeat("x", 1001) + `"}`: "/reason", `{"reason":"x","actor":"y"}`: "/actor"} {
			expect(t, body, pointers(h.post(path, body).refused(httpapi.CodeInvalid, http.StatusBadRequest)), []string{pointer})
		}
		h.post(path, "").refused(httpapi.CodeMalformed, http.StatusBadRequest)
		h.post("/v1/events/evt_none/redrive", `{"reason":"x"}`).refused(httpapi.CodeNotFound, http.StatusNotFound)

		const n = 8
		answers := make([]*answer, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { answers[i] = h.ask(http.MethodPost, path, `{"reason":"mended"}`, as(operateToken)) })
		}
		all.Wait()
		accepted := 0
		for _, a := range answers {
			if a.status == http.StatusAccepted {
				accepted++
				expect(t, "state", a.ok(http.StatusAccepted)["state"], "received")
				continue
			}
			a.refused(httpapi.CodeAlreadyRunning, http.StatusConflict)
		}
		expect(t, "accepted", accepted, 1)
		rows := h.get("/v1/audit?subject=" + id + "&action=event.redriven").items(http.StatusOK)
		expect(t, "audited", len(rows), 1)
		expect(t, "actor", rows[0]["actor"], "operator")
		expect(t, "reason", rows[0]["detail"].(map[string]any)["reason"], "mended")

		h.work()
		expect(t, "dead again", h.get("/v1/events/" + id).ok(http.StatusOK)["state"], "dead")
		done := h.receive(provider.Event{Identity: "evt_fine", Type: "x", Mode: provider.Live})[0]
		h.post("/v1/events/"+done+"/redrive", `{"reason":"x"}`).refused(httpapi.CodeNotRedrivable, http.StatusConflict)
	})
}

func TestMessagesAndDestinations(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.register("M-1", "pi_1")
		h.receive(captured("evt_1", "pi_1", 4800))
		list := h.get("/v1/messages?type=order.fulfill").items(http.StatusOK)
		expect(t, "messages", len(list), 1)
		id := text(list[0], "id")
		m := h.get("/v1/messages/" + id).ok(http.StatusOK)
		expect(t, "breaker", m["breaker"], "closed")
		expect(t, "history", m["history"], []any{})
		expect(t, "body", m["body"].(map[string]any)["type"], "order.fulfill")
		if text(m, "next_attempt_at") == "" {
			t.Fatalf("the next attempt is missing: %v", m)
		}
		raw := column(h.get("/v1/messages?type=event.charge.captured").items(http.StatusOK), "id")
		if len(raw) == 1 {
			if _, has := h.get("/v1/messages/" + raw[0]).ok(http.StatusOK)["body"]; has {
				t.Fatal("a provider's own bytes stand in a message")
			}
		}
		h.get("/v1/messages/msg_none").refused(httpapi.CodeNotFound, http.StatusNotFound)
		h.post("/v1/messages/"+id+"/retry", `{"reason":"x"}`).refused(httpapi.CodeNotRetryable, http.StatusConflict)
		h.post("/v1/messages/msg_none/retry", `{"reason":"x"}`).refused(httpapi.CodeNotFound, http.StatusNotFound)
		h.stop(id)
		retried := h.ask(http.MethodPost, "/v1/messages/"+id+"/retry", `{"reason":"shop mended"}`, as(operateToken)).ok(http.StatusAccepted)
		expect(t, "state", retried["state"], "pending")
		attempt := retried["history"].([]any)[0].(map[string]any)
		expect(t, "attempt", fmt.Sprint(attempt["verdict"], attempt["status"], attempt["duration_ms"]), fmt.Sprint("refused", 500.0, 1500.0))
		h.post("/v1/messages/"+id+"/retry", `{"reason":"again"}`).refused(httpapi.CodeNotRetryable, http.StatusConflict)

		d := h.get("/v1/destinations").items(http.StatusOK)
		expect(t, "destinations", column(d, "name"), []string{shop})
		expect(t, "url", d[0]["url"], "https://shop.example")
		expect(t, "paused", d[0]["paused"], false)
		expect(t, "pause", h.post("/v1/destinations/shop/pause", `{"reason":"moving"}`).ok(http.StatusOK)["paused"], true)
		expect(t, "paused", h.get("/v1/destinations").items(http.StatusOK)[0]["paused"], true)
		expect(t, "resume", h.post("/v1/destinations/shop/resume", `{"reason":"moved"}`).ok(http.StatusOK)["paused"], false)
		test := h.post("/v1/destinations/shop/test", "").ok(http.StatusAccepted)
		expect(t, "test", h.get("/v1/messages/" + text(test, "message")).ok(http.StatusOK)["type"], "destination.test")
		for _, verb := range []string{"pause", "resume", "test"} {
			body := `{"reason":"x"}`
			if verb == "test" {
				body = ""
			}
			h.post("/v1/destinations/nobody/"+verb, body).refused(httpapi.CodeNotFound, http.StatusNotFound)
		}
		h.post("/v1/destinations/shop/pause", `{"why":"x"}`).refused(httpapi.CodeInvalid, http.StatusBadRequest)
		// A reason may be missing, and the audit tells who it was all the same.
		expect(t, "pause without a body", h.post("/v1/destinations/shop/pause", "").ok(http.StatusOK)["paused"], true)
		expect(t, "resume without a reason", h.post("/v1/destinations/shop/resume", "{}").ok(http.StatusOK)["paused"], false)
		expect(t, "audited", len(h.get("/v1/audit?subject=destination.shop").items(http.StatusOK)), 5)

		expect(t, "one page", column(h.get("/v1/destinations?limit=1").items(http.StatusOK), "name"), []string{shop})
		expect(t, "behind the last", len(h.get("/v1/destinations?starting_after="+shop).items(http.StatusOK)), 0)
		h.get("/v1/destinations?starting_after=nobody").refused(httpapi.CodeInvalid, http.StatusBadRequest)
	})
}

// stop makes a message dead after one refused attempt, as the outbox does.
func (h *house) stop(id string) {
	h.t.Helper()
	err := h.store.InTx(context.Background(), store.TxOptions{}, func(tx store.Tx) error {
		return tx.RecordAttempts(context.Background(), []store.Attempt{{
			ID: "att_" + id, Message: id, Number: 1, At: h.clock(), Duration: 1500e6, Status: 500, Verdict: "refused", Error: "500",
		}}, map[string]store.MessageState{id: store.MessageDead})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// R9.4: whatever id somebody has, it leads to the payment and its history.
func TestSearchAndTimeline(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.register("S-1", "pi_1")
		events := h.receive(captured("evt_at_provider", "pi_1", 4800))
		h.register("S-1", "pi_other")
		h.receive(captured("evt_more", "pi_other", 4800))
		payment := text(p, "id")
		message := text(h.get("/v1/messages?type=order.fulfill").items(http.StatusOK)[0], "id")
		exception := text(h.get("/v1/exceptions?kind=surplus").items(http.StatusOK)[0], "id")
		for q, want := range map[string]string{
			payment: "payment id " + payment, "pi_1": "payment reference " + payment, "ch_pi_1": "payment reference " + payment,
			events[0]: "event id " + events[0], "evt_at_provider": "event provider_event_id " + events[0], message: "message id " + message,
			exception: "exception id " + exception,
		} {
			hits := h.get("/v1/search?q=" + q).items(http.StatusOK)
			if len(hits) != 1 {
				t.Fatalf("%s: %d hits, want one: %v", q, len(hits), hits)
			}
			expect(t, q, text(hits[0], "type")+" "+text(hits[0], "match")+" "+text(hits[0], "id"), want)
		}
		expect(t, "order", column(h.get("/v1/search?q=S-1").items(http.StatusOK), "type"), []string{"payment", "payment", "order"})
		expect(t, "nothing", len(h.get("/v1/search?q=nothing").items(http.StatusOK)), 0)
		// R9.4: an event that nobody has registered a payment for is found by what it names.
		early := captured("evt_early", "pi_early", 4800)
		early.Order = "S-2"
		waiting := h.receive(early)[0]
		for q, match := range map[string]string{"pi_early": "reference", "S-2": "order"} {
			hits := h.get("/v1/search?q=" + q).items(http.StatusOK)
			expect(t, "hits of "+q, column(hits, "id"), []string{waiting})
			expect(t, q, text(hits[0], "match")+" "+text(hits[0], "state"), match+" waiting")
		}

		line := h.get("/v1/payments/" + payment + "/timeline").items(http.StatusOK)
		last := ""
		kinds := map[string]int{}
		var facts []any
		for _, m := range line {
			if at := text(m, "at"); len(at) == len(last) && at < last {
				t.Fatalf("the history is not in order: %v", column(line, "at"))
			}
			last = text(m, "at")
			kinds[text(m, "kind")]++
			if text(m, "kind") == "evidence" {
				expect(t, "event", m["provider_event_id"], "evt_at_provider")
				facts = m["facts"].([]any)
			}
		}
		expect(t, "first", text(line[0], "type"), "payment.registered")
		expect(t, "by", text(line[0], "actor"), "chief")
		expect(t, "facts", len(facts), 2)
		if kinds["evidence"] != 1 || kinds["audit"] < 2 || kinds["message"] < 2 {
			t.Fatalf("the history lacks something: %v", kinds)
		}
		h.get("/v1/payments/pay_none/timeline").refused(httpapi.CodeNotFound, http.StatusNotFound)
	})
}

// The audit's chains are recomputed from their content.
func TestVerifyAudit(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := text(h.register("V-1", "pi_1"), "id")
		h.receive(captured("evt_1", "pi_1", 4800))
		rows := h.get("/v1/audit?subject=" + p).items(http.StatusOK)
		v := h.get("/v1/audit/verify?subject=" + p).ok(http.StatusOK)
		expect(t, "intact", v["intact"], true)
		expect(t, "rows", v["rows"], float64(len(rows)))
		expect(t, "head", v["head"], rows[0]["hash"])
		expect(t, "linked", rows[0]["prev"], rows[1]["hash"])
		h.get("/v1/audit/verify?subject=nobody").refused(httpapi.CodeNotFound, http.StatusNotFound)
		for i := range 120 {
			h.register(fmt.Sprintf("V-%d", i+2), fmt.Sprintf("pi_v%d", i))
		}
		all, subjects := h.get("/v1/audit/verify").ok(http.StatusOK), map[string]bool{}
		expect(t, "all are intact", all["intact"], true)
		var count float64
		query := "/v1/audit?limit=100"
		for more := true; more; {
			page := h.get(query).object(http.StatusOK)
			more = page["has_more"].(bool)
			for _, row := range page["data"].([]any) {
				row := row.(map[string]any)
				subjects[text(row, "subject")] = true
				query = "/v1/audit?limit=100&starting_after=" + text(row, "id")
				count++
			}
		}
		// Orders have a head of their own from the start, and a chain only once something happened to them.
		expect(t, "all rows", all["rows"], count)
		if all["subjects"].(float64) < float64(len(subjects)) || len(subjects) < 121 {
			t.Fatalf("%v subjects of %d at least", all["subjects"], len(subjects))
		}
	})
}

// forged shows a chain other than the one that is stored.
type forged struct {
	store.Store
	forge func([]store.AuditRow) []store.AuditRow
}

type forgedReader struct {
	store.Reader
	forge func([]store.AuditRow) []store.AuditRow
}

func (f *forged) View(ctx context.Context, fn func(store.Reader) error) error {
	return f.Store.View(ctx, func(r store.Reader) error { return fn(forgedReader{r, f.forge}) })
}

func (r forgedReader) AuditChain(ctx context.Context, subject string) ([]store.AuditRow, error) {
	rows, err := r.Reader.AuditChain(ctx, subject)
	return r.forge(rows), err
}

// A row that was changed, left out in the middle or cut off at the end is found.
func TestVerifyFindsForgeries(t *testing.T) {
	f := &forged{Store: openSQLite(t), forge: func(rows []store.AuditRow) []store.AuditRow { return rows }}
	h := newHouse(t, f, nil)
	p := text(h.register("V-1", "pi_1"), "id")
	h.receive(captured("evt_1", "pi_1", 4800), captured("evt_2", "pi_1", 4800))
	for name, c := range map[string]struct {
		forge func([]store.AuditRow) []store.AuditRow
		at    float64
	}{
		"changed":  {func(r []store.AuditRow) []store.AuditRow { r[1].Actor = "nobody"; return r }, 2},
		"left out": {func(r []store.AuditRow) []store.AuditRow { return append(r[:1:1], r[2:]...) }, 2},
		"cut off":  {func(r []store.AuditRow) []store.AuditRow { return r[:len(r)-1] }, 0},
		"all gone": {func([]store.AuditRow) []store.AuditRow { return nil }, 1},
		"rehashed": {func(r []store.AuditRow) []store.AuditRow {
			var head store.AuditHead
			r[0].Actor = "nobody"
			for i := range r {
				head = store.Chain(head, &r[i])
			}
			return r
		}, 0},
	} {
		f.forge = c.forge
		v := h.get("/v1/audit/verify?subject=" + p).ok(http.StatusOK)
		if v["intact"] != false || v["broken_at"] == nil || c.at > 0 && v["broken_at"] != c.at {
			t.Errorf("%s: %v, want it found at %v", name, v, c.at)
		}
		if v := h.get("/v1/audit/verify").ok(http.StatusOK); v["intact"] != false || v["subject"] != p {
			t.Errorf("%s, looking at all: %v", name, v)
		}
	}
}
