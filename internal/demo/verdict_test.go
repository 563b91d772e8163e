package demo

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/unavez/unavez/simulator"
)

func agreed() Report {
	return Report{
		Books:   Money{Captured: Sums{"EUR": 9600}, Refunded: Sums{"EUR": 100}, Disputed: Sums{}},
		Ledger:  Money{Captured: Sums{"EUR": 9600}, Refunded: Sums{"EUR": 100}, Disputed: Sums{}},
		Effects: Effects{Expected: 2, Once: 1, Held: 1}, Differences: []string{},
	}
}

// Whatever differs by itself makes the verdict differ, and is named once.
func TestVerdict(t *testing.T) {
	for name, bend := range map[string]func(*Report){
		"": func(*Report) {},
		"captured: the provider's books say 96.00 EUR, the ledger says 95.99 EUR": func(r *Report) { r.Ledger.Captured["EUR"]-- },
		"refunded: the provider's books say 1.00 EUR, the ledger says 0.00 EUR":   func(r *Report) { r.Ledger.Refunded = Sums{} },
		"disputed: the provider's books say 0 JPY, the ledger says 7 JPY":         func(r *Report) { r.Ledger.Disputed["JPY"] = 7 },
		"1 order(s) were fulfilled more than once":                                func(r *Report) { r.Effects.MoreThanOnce = 1 },
		"1 order(s) were never fulfilled":                                         func(r *Report) { r.Effects.Missing = 1 },
		"1 event(s) or message(s) are not settled":                                func(r *Report) { r.Unresolved = 1 },
		"something else": func(r *Report) { r.differ("something else") },
	} {
		r := agreed()
		bend(&r)
		r.judge()
		want, differences := Agree, 0
		if name != "" {
			want, differences = Differ, 1
		}
		if r.Verdict != want || len(r.Differences) != differences || differences == 1 && r.Differences[0] != name {
			t.Errorf("%q: the verdict is %s, the differences are %q", name, r.Verdict, r.Differences)
		}
		var out bytes.Buffer
		if err := r.Print(&out); err != nil || !strings.Contains(out.String(), strings.ToUpper(want)) || !strings.Contains(out.String(), name) {
			t.Errorf("%q: printed as (%v)\n%s", name, err, &out)
		}
	}
}

// What is expected comes from the provider's books alone, and what came of it
// from the shop; the ledger's word counts only where the books show that the
// money has gone back.
func TestEffectsAreCountedByBooksAndShop(t *testing.T) {
	move := func(kind, order string, amount int64) simulator.Movement {
		return simulator.Movement{Kind: kind, Order: order, Amount: amount, Currency: currency}
	}
	books := simulator.Books{Movements: []simulator.Movement{
		move(simulator.Captured, "once", price),
		move(simulator.Captured, "twice", price),
		move(simulator.Captured, "never", price),
		move(simulator.Captured, "held without reason", price), move(simulator.Refunded, "held without reason", price-1),
		move(simulator.Captured, "refunded", price), move(simulator.Refunded, "refunded", price),
		move(simulator.Captured, "disputed", price/2), move(simulator.Captured, "disputed", price/2), move(simulator.DisputeWithdrawn, "disputed", price),
		move(simulator.Captured, "refund failed", price), move(simulator.Refunded, "refund failed", price), move(simulator.RefundFailed, "refund failed", price),
		move(simulator.Captured, "too little", price-1),
		move(simulator.Authorized, "not captured", price),
	}}
	held := map[string]bool{"held without reason": true, "refunded": true, "disputed": true, "refund failed": true}
	r := agreed()
	r.Effects = Effects{}
	r.count(books, map[string]int{"once": 1, "twice": 2, "too little": 1, "not captured": 1}, held)
	if want := (Effects{Expected: 7, Once: 1, Held: 2, MoreThanOnce: 1, Missing: 3}); r.Effects != want {
		t.Errorf("the effects are %+v, want %+v", r.Effects, want)
	}
	text := strings.Join(r.Differences, "\n")
	if len(r.Differences) != 2 || !strings.Contains(text, "too little") || !strings.Contains(text, "not captured") {
		t.Errorf("the differences are %q", r.Differences)
	}
}

// The shop takes each id once and refuses what is not signed for it.
func TestShop(t *testing.T) {
	s, err := openShop()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	tell := func(id, inside, secret string) int {
		body := `{"id":"` + inside + `","type":"order.fulfill","data":{"order":"A"}}`
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
		r.Header.Set("webhook-id", id)
		r.Header.Set("webhook-timestamp", "1")
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(id + ".1." + body))
		r.Header.Set("webhook-signature", "v1,AAAA v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	for i, c := range []struct {
		id, inside, secret string
		status, fulfilled  int
	}{
		{"msg_1", "msg_1", "not the secret", http.StatusBadRequest, 0},
		{"msg_1", "msg_2", s.secret, http.StatusBadRequest, 0},
		{"msg_1", "msg_1", s.secret, http.StatusOK, 1},
		{"msg_1", "msg_1", s.secret, http.StatusOK, 1},
		{"msg_2", "msg_2", s.secret, http.StatusOK, 2},
	} {
		if status := tell(c.id, c.inside, c.secret); status != c.status || s.counts()["A"] != c.fulfilled {
			t.Errorf("message %d: status %d, fulfilled %d times; want %d, %d", i+1, status, s.counts()["A"], c.status, c.fulfilled)
		}
	}
}
