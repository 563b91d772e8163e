package simulator

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const hourMS = int(time.Hour / time.Millisecond)

// valid checks a signature without the package's own signing.
func valid(header, secret string, body []byte) bool {
	parts := strings.Split(header, ",")
	t := strings.TrimPrefix(parts[0], "t=")
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "." + string(body)))
	return slices.Contains(parts[1:], "v1="+hex.EncodeToString(mac.Sum(nil)))
}

func TestEnvelopeAndSignature(t *testing.T) {
	sh, now := newShop(t, nil), newClock()
	w := newWorld(t, Config{
		WebhookURL: sh.url, WebhookSecret: "whsec_new", Secrets: []string{"whsec_old"}, Live: true, APIVersion: "2024-06-20", Now: now.read,
	}).started()
	in := w.pay(paid, "Idempotency-Key", "k1")
	w.drain()
	got := sh.all()
	if len(got) != 3 {
		t.Fatalf("%d deliveries", len(got))
	}
	for _, r := range got {
		if !strings.HasPrefix(r.signature, "t=1700000000,v1=") || strings.Count(r.signature, "v1=") != 2 ||
			!valid(r.signature, "whsec_new", r.body) || !valid(r.signature, "whsec_old", r.body) || valid(r.signature, "whsec_else", r.body) {
			t.Fatal(r.signature)
		}
		request, _ := r.event["request"].(object)
		if r.event["object"] != "event" || r.event["api_version"] != "2024-06-20" || r.event["livemode"] != true ||
			r.event["created"] != float64(1_700_000_000) || request["idempotency_key"] != "k1" || request["id"] != in.header.Get("Request-Id") {
			t.Fatalf("%s", r.body)
		}
		if _, has := r.event["account"]; has {
			t.Fatal("our own account is not named")
		}
		if listed := w.ok(w.get("/v1/events/" + r.id)); listed.str("type") != r.typ {
			t.Fatal(listed.raw)
		}
	}
	w.trigger(Trigger{Type: DisputeOpen, PaymentIntent: in.str("id")})
	w.drain()
	r := sh.all()[3]
	if request, _ := r.event["request"].(object); request["id"] != nil || request["idempotency_key"] != nil {
		t.Fatalf("what happens by itself has no request: %s", r.body)
	}
	w.ok(w.post("/v1/refunds", "amount=5&payment_intent="+w.pay(paid, "Stripe-Account", "acct_c").str("id"), "Stripe-Account", "acct_c"))
	w.drain()
	for _, r := range sh.all() {
		if r.typ != "charge.refunded" {
			continue
		}
		data, _ := r.event["data"].(object)
		previous, _ := data["previous_attributes"].(object)
		if r.event["account"] != "acct_c" || previous["amount_refunded"] != float64(0) {
			t.Fatalf("%s", r.body)
		}
		return
	}
	t.Fatal("no charge.refunded")
}

// R1.8: the provider repeats until it is told 2xx; a redirect is no such word.
func TestRetriesUntilAcknowledged(t *testing.T) {
	statuses := []int{500, 302, 404, 204}
	sh := newShop(t, func(n int, _ object) int { return statuses[min(n-1, 3)] })
	now := newClock()
	w := newWorld(t, Config{Now: now.read, Endpoints: []Endpoint{{URL: sh.url, Types: []string{"charge.*"}}}}).started()
	w.pay(paid)
	w.drain()
	got := sh.all()
	if len(got) != 4 {
		t.Fatalf("%d attempts", len(got))
	}
	for _, r := range got {
		if r.id != got[0].id || string(r.body) != string(got[0].body) || r.typ != "charge.succeeded" {
			t.Fatal("a retry is another event")
		}
	}
	d := w.s.Deliveries()
	if d.Attempts != 4 || d.Failed != 3 || d.Acknowledged != 1 || d.Duplicates != 0 || d.Pending != 0 {
		t.Fatalf("%+v", d)
	}
}

func TestSignatureIsMadeAnewForEachAttempt(t *testing.T) {
	now := newClock()
	sh := newShop(t, func(n int, _ object) int {
		now.advance(time.Hour)
		if n < 3 {
			return 503
		}
		return 200
	})
	w := newWorld(t, Config{WebhookURL: sh.url, Now: now.read}).started()
	w.pay("amount=500&currency=eur")
	w.drain()
	seen := map[string]bool{}
	for _, r := range sh.all() {
		if !valid(r.signature, defaultWebhookSecret, r.body) {
			t.Fatal(r.signature)
		}
		seen[r.signature] = true
	}
	if len(seen) != 3 {
		t.Fatalf("%v", seen)
	}
}

func TestGivingUpAndLosing(t *testing.T) {
	sh := newShop(t, func(int, object) int { return 500 })
	w := newWorld(t, Config{WebhookURL: sh.url, AttemptsMax: 3}).started()
	in := w.pay("amount=500&currency=eur")
	w.drain()
	if d := w.s.Deliveries(); d.Attempts != 3 || d.GaveUp != 1 || d.Acknowledged != 0 {
		t.Fatalf("%+v", d)
	}
	w.inject(Fault{Kind: FaultLoss, EventType: "payment_intent.canceled"})
	sh.mu.Lock()
	sh.reply = nil
	sh.mu.Unlock()
	w.ok(w.post("/v1/payment_intents/"+in.str("id")+"/cancel", ""))
	w.pay("amount=500&currency=eur")
	w.drain()
	if d := w.s.Deliveries(); d.Lost != 1 || d.Acknowledged != 1 || d.Events != 3 {
		t.Fatalf("%+v", d)
	}
	undelivered := w.ok(w.get("/v1/events?delivery_success=false")).rows()
	if len(undelivered) != 2 || undelivered[0]["type"] != "payment_intent.canceled" {
		t.Fatalf("%v", undelivered)
	}
	if list := w.get("/v1/events?delivery_success=true").rows(); len(list) != 1 {
		t.Fatalf("%v", list)
	}
}

// R1.3: the material of duplicates: one event delivered often, one fact as two
// events, an answer lost after it was given.
func TestDuplicates(t *testing.T) {
	sh := newShop(t, nil)
	w := newWorld(t, Config{WebhookURL: sh.url, Seed: 5}).started()
	w.inject(Fault{Kind: FaultDuplicate, EventType: "charge.succeeded", Copies: 4})
	w.inject(Fault{Kind: FaultSecondEvent, EventType: "payment_intent.succeeded"})
	w.inject(Fault{Kind: FaultLostAnswer, EventType: "payment_intent.created", Times: 2})
	for range 20 {
		w.pay(paid)
	}
	w.drain()
	copies, seconds := map[string]int{}, map[string]map[string]bool{}
	for _, r := range sh.all() {
		data, _ := r.event["data"].(object)
		shown, _ := data["object"].(object)
		id, _ := shown["id"].(string)
		switch r.typ {
		case "charge.succeeded":
			copies[r.id]++
		case "payment_intent.succeeded":
			if seconds[id] == nil {
				seconds[id] = map[string]bool{}
			}
			seconds[id][r.id] = true
		}
	}
	several := false
	for id, n := range copies {
		if n < 2 || n > 5 {
			t.Fatalf("%s came %d times", id, n)
		}
		several = several || n > 2
	}
	if len(copies) != 20 || !several {
		t.Fatalf("%v", copies)
	}
	for id, ids := range seconds {
		if len(ids) != 2 {
			t.Fatalf("%s has events %v", id, ids)
		}
	}
	d := w.s.Deliveries()
	if d.SecondEvents != 20 || d.DroppedAnswers != 2 || d.Events != 80 || d.Duplicates == 0 || d.Pending != 0 {
		t.Fatalf("%+v", d)
	}
	if w.total(Captured) != 20*4800 {
		t.Fatal("a fault of delivery changed the books")
	}
	if list := w.get("/v1/events?type=payment_intent.succeeded&limit=100").rows(); len(list) != 40 {
		t.Fatalf("%d listed", len(list))
	}
}

func TestDisorderIsSeeded(t *testing.T) {
	order := func(seed uint64) []string {
		sh := newShop(t, nil)
		w := newWorld(t, Config{WebhookURL: sh.url, Workers: 1, Seed: seed})
		w.inject(Fault{Kind: FaultDisorder, Window: 9, DelayMS: hourMS})
		in := w.pay(held)
		path := "/v1/payment_intents/" + in.str("id") + "/capture"
		for range 3 {
			w.ok(w.post(path, "amount_to_capture=1000&final_capture=false"))
		}
		w.started().drain()
		var types []string
		for _, r := range sh.all() {
			types = append(types, r.id)
		}
		if d := w.s.Deliveries(); len(types) != 9 || d.OutOfOrder == 0 {
			t.Fatalf("%v %+v", types, d)
		}
		return types
	}
	if one := order(1); !slices.Equal(one, order(1)) {
		t.Fatal("one seed, two orders")
	}
}

func TestAnUnfilledWindowAndADelayAreFlushed(t *testing.T) {
	sh := newShop(t, nil)
	w := newWorld(t, Config{WebhookURL: sh.url, RetryBase: time.Hour, RetryMax: time.Hour}).started()
	w.inject(Fault{Kind: FaultDisorder, Window: 100, DelayMS: hourMS, EventType: "charge.*"})
	w.inject(Fault{Kind: FaultWait, DelayMS: 100 * hourMS, EventType: "payment_intent.*"})
	w.inject(Fault{Kind: FaultLostAnswer, EventType: "payment_intent.*", Times: 2})
	w.pay(paid)
	if d := w.s.Deliveries(); d.Pending < 2 {
		t.Fatalf("%+v", d)
	}
	// What was delayed goes now; the answers that are lost make retries due in
	// an hour, which go now too.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.s.FlushAll(ctx); err != nil {
		t.Fatalf("%v %+v", err, w.s.Deliveries())
	}
	if d := w.s.Deliveries(); d.Acknowledged != 5 || d.Duplicates != 2 || d.DroppedAnswers != 2 {
		t.Fatalf("%+v", d)
	}
}

func TestStopKeepsWhatIsPending(t *testing.T) {
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	sh := newShop(t, func(n int, _ object) int {
		if n == 1 {
			entered <- struct{}{}
			<-leave
		}
		return 200
	})
	w := newWorld(t, Config{WebhookURL: sh.url, Workers: 1}).started()
	if err := w.s.Start(context.Background()); !errors.Is(err, ErrRunning) {
		t.Fatal(err)
	}
	w.pay(paid)
	<-entered
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.s.Stop(ended); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(leave)
	if d := w.s.Deliveries(); d.Pending != 3 || d.Attempts != 1 || d.Failed != 1 {
		t.Fatalf("%+v", d)
	}
	w.started().drain()
	if d := w.s.Deliveries(); d.Acknowledged != 3 {
		t.Fatalf("%+v", d)
	}
}

func TestSeveralEndpoints(t *testing.T) {
	one, two := newShop(t, nil), newShop(t, func(n int, _ object) int { return []int{500, 200}[min(n-1, 1)] })
	w := newWorld(t, Config{WebhookURL: one.url, Endpoints: []Endpoint{{URL: two.url, Secrets: []string{"whsec_two"}}}}).started()
	w.pay("amount=500&currency=eur")
	w.drain()
	if len(one.all()) != 1 || len(two.all()) != 2 || !valid(two.all()[1].signature, "whsec_two", two.all()[1].body) {
		t.Fatal(one.all(), two.all())
	}
	if d := w.s.Deliveries(); d.Duplicates != 0 || d.Attempts != 3 {
		t.Fatalf("%+v", d)
	}
	if err := w.s.SetEndpoints(Endpoint{URL: "ftp://x"}); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	three := newShop(t, nil)
	if err := w.s.SetEndpoints(Endpoint{URL: three.url}); err != nil {
		t.Fatal(err)
	}
	w.pay("amount=500&currency=eur")
	w.drain()
	if len(three.all()) != 1 || len(one.all()) != 1 {
		t.Fatal("the endpoints did not change")
	}
}

func TestEventsAreBounded(t *testing.T) {
	sh := newShop(t, func(int, object) int { return 500 })
	w := newWorld(t, Config{WebhookURL: sh.url, EventsMax: 4, RetryBase: time.Hour, RetryMax: time.Hour})
	first := w.pay(paid)
	w.pay("amount=500&currency=eur") // the fourth
	a := w.post("/v1/payment_intents", paid, "Idempotency-Key", "k1")
	w.refusal(a, http.StatusTooManyRequests, typeInvalid, "rate_limit")
	if _, err := w.s.Trigger(Trigger{Type: DisputeOpen, PaymentIntent: first.str("id")}); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	sh.mu.Lock()
	sh.reply = nil
	sh.mu.Unlock()
	w.started().drain()
	w.pay(paid, "Idempotency-Key", "k1") // nothing was kept under the key
	w.drain()
	if n := len(w.s.events.rows); n != 4 || len(w.s.events.byID) != 4 {
		t.Fatalf("%d events", n)
	}
	full := newWorld(t, Config{ObjectsMax: 1})
	full.pay("amount=500&currency=eur")
	full.refusal(full.post("/v1/payment_intents", paid), http.StatusTooManyRequests, typeInvalid, "rate_limit")
}
