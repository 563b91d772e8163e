package simulator

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The kinds of movement.
const (
	Authorized        = "authorized"         // a customer's bank holds money for us
	Captured          = "captured"           // held money became ours
	Released          = "released"           // held money was given up, uncaptured
	Refunded          = "refunded"           // money left towards the customer
	RefundFailed      = "refund_failed"      // a refund that had left came back
	DisputeWithdrawn  = "dispute_withdrawn"  // a bank took money back
	DisputeReinstated = "dispute_reinstated" // and returned it
)

// Movement is one line of the books; it is never changed. Amount is positive,
// in the provider's minor units; Currency is upper case.
type Movement struct {
	ID            string    `json:"id"`
	Kind          string    `json:"kind"`
	Object        string    `json:"object"` // ch_ re_ dp_ that moved it
	PaymentIntent string    `json:"payment_intent"`
	Charge        string    `json:"charge"`
	Amount        int64     `json:"amount"`
	Currency      string    `json:"currency"`
	Order         string    `json:"order,omitempty"`   // from the intent's metadata
	Account       string    `json:"account,omitempty"` // of a connected account
	Request       string    `json:"request,omitempty"` // the request that did it
	At            time.Time `json:"at"`
}

// Sums are amounts by kind and currency: {"captured":{"EUR":960000}}.
type Sums map[string]map[string]int64

// Books are the oracle. Totals add up the movements of each kind. Net has
// captured, refunded (less failed refunds) and disputed (withdrawn less
// reinstated).
type Books struct {
	Movements []Movement `json:"movements"`
	Totals    Sums       `json:"totals"`
	Net       Sums       `json:"net"`
}

// ledger is the append-only list behind Books, guarded by Server.mu.
type ledger struct {
	lines  []Movement
	totals Sums
}

func (l *ledger) add(m Movement) {
	if m.Amount <= 0 {
		panic("simulator: impossible: a movement of nothing: " + m.Kind + " " + m.Object)
	}
	m.Currency = strings.ToUpper(m.Currency)
	l.lines = append(l.lines, m)
	l.totals.add(m.Kind, m.Currency, m.Amount)
}

func (s Sums) add(kind, currency string, amount int64) {
	if s[kind] == nil {
		s[kind] = map[string]int64{}
	}
	s[kind][currency] += amount
}

func (s Sums) clone() Sums {
	out := make(Sums, len(s))
	for kind, by := range s {
		out[kind] = maps.Clone(by)
	}
	return out
}

func (s Sums) net() Sums {
	out := Sums{}
	for _, term := range []struct {
		from, to string
		sign     int64
	}{
		{Captured, "captured", 1}, {Refunded, "refunded", 1}, {RefundFailed, "refunded", -1},
		{DisputeWithdrawn, "disputed", 1}, {DisputeReinstated, "disputed", -1},
	} {
		for currency, amount := range s[term.from] {
			out.add(term.to, currency, term.sign*amount)
		}
	}
	return out
}

// Books copies the books as they stand, in one instant.
func (s *Server) Books() Books {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.sums()
	b.Movements = slices.Clone(s.ledger.lines)
	return b
}

// Sums is Books without the movements, for callers that ask often.
func (s *Server) Sums() Books {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sums()
}

func (s *Server) sums() Books {
	return Books{Movements: []Movement{}, Totals: s.ledger.totals.clone(), Net: s.ledger.totals.net()}
}

// book writes a line; the caller holds s.mu and changes the state beside it.
func (s *Server) book(c *call, kind, id string, ch *charge, amount int64) {
	in := ch.intent
	s.ledger.add(Movement{
		ID: mint(s.ids, "mov_", idChars), Kind: kind, Object: id, PaymentIntent: in.id, Charge: ch.id,
		Amount: amount, Currency: in.currency, Order: in.metadata[s.cfg.OrderMetadata],
		Account: in.account, Request: c.id, At: c.now.UTC(),
	})
	s.post(c, kind, id, ch, amount)
}
