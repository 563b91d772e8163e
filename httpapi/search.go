package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/store"
)

// HitDocument is one object that a search found.
type HitDocument struct {
	Type string `json:"type" enum:"payment,order,event,message,exception"`
	ID   string `json:"id" doc:"For an order the merchant's own id"`
	// Match says by which of its names it was found.
	Match           string `json:"match" enum:"id,order,reference,provider_event_id"`
	Account         string `json:"account,omitzero"`
	Shop            string `json:"shop,omitzero"`
	Payment         string `json:"payment,omitzero"`
	Order           string `json:"order,omitzero"`
	ProviderEventID string `json:"provider_event_id,omitzero"`
	State           string `json:"state,omitzero"`
}

type searchQuery struct {
	Q string `query:"q" required:"true" doc:"Any id: ours, an event's at the provider, a reference, or an order's"`
}

func (a *API) registerSearch() {
	handle(a, call{
		id: "search", method: http.MethodGet, path: "/v1/search", tag: "search", role: RoleRead, summary: "Find objects by any of their ids",
	}, a.search)
}

func (a *API) search(ctx context.Context, in *searchQuery) (*list[HitDocument], error) {
	hits, err := view(ctx, a.deps.Store, func(tx store.Reader) ([]HitDocument, error) {
		s := &searching{tx: tx, q: in.Q, accounts: a.deps.Accounts, seen: map[string]bool{}}
		for _, step := range []func(context.Context) error{s.payments, s.references, s.orders, s.events, s.waiting, s.rest} {
			if err := step(ctx); err != nil {
				return nil, fmt.Errorf("searching: %w", err)
			}
		}
		return s.hits, nil
	})
	if err != nil {
		return nil, err
	}
	return page(hits, searchHitsMax, func(h HitDocument) HitDocument { return h }), nil
}

type searching struct {
	tx       store.Reader
	q        string
	accounts []Account
	seen     map[string]bool
	hits     []HitDocument
}

func (s *searching) add(h HitDocument) {
	key := h.Type + " " + h.Shop + " " + h.ID
	if !s.seen[key] {
		s.seen[key] = true
		s.hits = append(s.hits, h)
	}
}

// list selects by one column, one more than is ever shown.
func (s *searching) list(column string) store.List {
	return store.List{Where: map[string]string{column: s.q}, Limit: searchHitsMax + 1}
}

func (s *searching) addPayment(p store.Payment, match string) {
	s.add(HitDocument{
		Type: "payment", ID: p.ID, Match: match, Account: p.Scope.Account, Shop: p.Order.Shop, Payment: p.ID, Order: p.Order.ID,
		State: string(p.View.State),
	})
}

func (s *searching) payments(ctx context.Context) error {
	p, err := s.tx.Payment(ctx, s.q)
	if err == nil {
		s.addPayment(p, "id")
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	rows, err := s.tx.Payments(ctx, s.list("order"))
	for _, p := range rows {
		s.addPayment(p, "order")
	}
	return err
}

// references looks the value up among the names of each account.
func (s *searching) references(ctx context.Context) error {
	for _, account := range s.accounts {
		owners, err := s.tx.OwnersAnywhere(ctx, account.Name, []string{s.q})
		if err != nil {
			return err
		}
		for _, value := range slices.Sorted(maps.Keys(owners)) {
			for _, id := range owners[value] {
				p, err := s.tx.Payment(ctx, id)
				if err != nil {
					return err
				}
				s.addPayment(p, "reference")
			}
		}
	}
	return nil
}

func (s *searching) addOrder(o store.Order, match string) {
	s.add(HitDocument{Type: "order", ID: o.Key.ID, Match: match, Shop: o.Key.Shop, Order: o.Key.ID, State: o.Fulfillment})
}

func (s *searching) orders(ctx context.Context) error {
	o, err := s.tx.OrderByID(ctx, s.q)
	if err == nil {
		s.addOrder(o, "id")
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	rows, err := s.tx.Orders(ctx, s.list("order"))
	for _, o := range rows {
		s.addOrder(o, "order")
	}
	return err
}

func (s *searching) addEvent(e store.EntryStatus, match string) {
	s.add(HitDocument{
		Type: "event", ID: e.ID, Match: match, Account: e.Scope.Account, Payment: e.Payment, Order: e.Order,
		ProviderEventID: e.ProviderEventID, State: e.State,
	})
}

func (s *searching) events(ctx context.Context) error {
	e, err := s.tx.Entry(ctx, s.q)
	if err == nil {
		s.addEvent(e, "id")
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	rows, err := s.tx.Entries(ctx, s.list("provider_event_id"))
	for _, e := range rows {
		s.addEvent(e, "provider_event_id")
	}
	return err
}

// waiting finds events that no payment is known for yet, by what they name: a
// reference or an order that somebody reads off the provider's own pages.
func (s *searching) waiting(ctx context.Context) error {
	for _, under := range []struct{ value, match string }{{s.q, "reference"}, {apply.OrderName(s.q), "order"}} {
		for _, account := range s.accounts {
			ids, err := s.tx.WaitingUnder(ctx, account.Name, under.value, searchHitsMax+1)
			if err != nil {
				return err
			}
			for _, id := range ids {
				e, err := s.tx.Entry(ctx, id)
				if err != nil {
					return err
				}
				s.addEvent(e, under.match)
			}
		}
	}
	return nil
}

func (s *searching) rest(ctx context.Context) error {
	m, err := s.tx.Message(ctx, s.q)
	if err == nil {
		s.add(HitDocument{
			Type: "message", ID: m.ID, Match: "id", Account: m.Account, Payment: m.Payment, Order: m.Order, State: string(m.State),
		})
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	e, err := s.tx.Exception(ctx, s.q)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		s.add(HitDocument{
			Type: "exception", ID: e.ID, Match: "id", Account: e.Account, Payment: e.Payment, Order: e.Order,
			ProviderEventID: e.ProviderEventID, State: e.State,
		})
	}
	return err
}
