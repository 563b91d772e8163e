package demo

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// shopBytesMax bounds what the shop reads of a message.
const shopBytesMax = 1 << 20

// shop is the merchant's own system. As every receiver of messages has to, it
// checks their signature and takes each id once; and it counts what it does for
// each order.
type shop struct {
	secret string

	mu        sync.Mutex
	seen      map[string]bool
	fulfilled map[string]int
	revoked   map[string]int
	// bend, if not nil, may change what the shop hears (tests of the verdict).
	bend func(order string) (times int)
	srv  *http.Server
	url  string
}

func openShop() (*shop, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &shop{
		secret: "demo_shop_" + rand.Text(),
		seen:   map[string]bool{}, fulfilled: map[string]int{}, revoked: map[string]int{}, url: "http://" + l.Addr().String() + "/hook",
	}
	s.srv = &http.Server{Handler: s, ReadHeaderTimeout: callWithin}
	go func() { _ = s.srv.Serve(l) }()
	return s, nil
}

func (s *shop) close() { _ = s.srv.Close() }

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, shopBytesMax))
	var m struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data struct {
			Order string `json:"order"`
		} `json:"data"`
	}
	if err != nil || !signed(r.Header, raw, s.secret) || json.Unmarshal(raw, &m) != nil || m.ID != r.Header.Get("webhook-id") {
		http.Error(w, "not a message of ours", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[m.ID] {
		return
	}
	s.seen[m.ID] = true
	switch m.Type {
	case "order.fulfill":
		times := 1
		if s.bend != nil {
			times = s.bend(m.Data.Order)
		}
		s.fulfilled[m.Data.Order] += times
	case "order.revoked":
		s.revoked[m.Data.Order]++
	}
}

// signed checks a message by Standard Webhooks: HMAC-SHA256 over its id, its
// time and its bytes.
func signed(h http.Header, body []byte, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return slices.ContainsFunc(strings.Fields(h.Get("webhook-signature")), func(have string) bool {
		return hmac.Equal([]byte(have), []byte(want))
	})
}

// counts copies what the shop has counted.
func (s *shop) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int, len(s.fulfilled))
	for order, n := range s.fulfilled {
		out[order] = n
	}
	return out
}
