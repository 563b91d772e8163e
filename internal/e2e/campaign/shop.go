package campaign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
)

// shopSecret is the secret that messages to the shop are signed with.
const shopSecret = "the secret of the shop that counts"

// told is one message as the shop got it.
type told struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	Order string
	// Shop is whose order it is.
	Shop string
	// Fact is the object that the message is about.
	Fact  string
	Times int
}

// shop is a destination that counts. Like any careful receiver it takes each
// id once; that an id comes again is allowed, that one effect comes under two
// ids is not.
type shop struct {
	server *httptest.Server

	mu    sync.Mutex
	told  map[string]*told
	wrong []string
}

func newShop() *shop {
	s := &shop{told: map[string]*told{}}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

func (s *shop) close() { s.server.Close() }

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender died on the way; nothing was received
	}
	var m struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data struct {
			Order string `json:"order"`
			Shop  string `json:"shop"`
			Fact  struct {
				Object string `json:"object"`
				Kind   string `json:"kind"`
				Stage  string `json:"stage"`
			} `json:"fact"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		s.note("a body that cannot be read: " + err.Error())
		return
	}
	if id := r.Header.Get("Webhook-Id"); id != m.ID || r.Header.Get("Idempotency-Key") != id || !authentic(r, body) {
		s.note(fmt.Sprintf("message %s came under id %q and key %q, authentic %v", m.ID, id, r.Header.Get("Idempotency-Key"), authentic(r, body)))
	}
	got := told{ID: m.ID, Type: m.Type, Order: m.Data.Order, Shop: m.Data.Shop, Fact: m.Data.Fact.Kind + " " + m.Data.Fact.Object + " " + m.Data.Fact.Stage}
	s.take(got)
}

// take counts a message.
func (s *shop) take(m told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.told[m.ID]
	if known == nil {
		known = &m
		s.told[m.ID] = known
	} else if known.Type != m.Type || known.Order != m.Order || known.Fact != m.Fact {
		s.wrong = append(s.wrong, fmt.Sprintf("message %s came with other content: %s of %s, before %s of %s", m.ID, m.Type, m.Order, known.Type, known.Order))
	}
	known.Times++
}

func (s *shop) note(wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, wrong)
}

// problems are what no message may be.
func (s *shop) problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wrong)
}

// effects counts the messages of a type by order, each id once.
func (s *shop) effects(kind string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := map[string]int{}
	for _, m := range s.told {
		if m.Type == kind {
			count[m.Order]++
		}
	}
	return count
}

// all returns the messages, each id once.
func (s *shop) all() []told {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []told
	for _, m := range s.told {
		list = append(list, *m)
	}
	return list
}

// authentic checks the signature of Standard Webhooks 1.0.
func authentic(r *http.Request, body []byte) bool {
	mac := hmac.New(sha256.New, []byte(shopSecret))
	mac.Write([]byte(r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "."))
	mac.Write(body)
	return r.Header.Get("Webhook-Signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
