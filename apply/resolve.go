package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/unavez/unavez/store"
)

// OrderName is the pseudo-name under which evidence that carries only an order
// id waits. No provider name holds a control character, so none can equal it.
func OrderName(order string) string {
	if order == "" {
		return ""
	}
	return "\x01order:" + order
}

// waitNames are the names that the evidence waits under, and that are locked first.
func (in *input) waitNames() []store.ScopedName {
	if in.event.Order == "" {
		return in.names
	}
	n := store.ScopedName{Scope: in.entry.Scope, Value: OrderName(in.event.Order)}
	return append(slices.Clone(in.names), n)
}

// resolve finds the payment of each input by its names, without locks. Inputs
// of one batch teach each other names until nothing changes.
func (s *step) resolve(ctx context.Context) error {
	all := s.collectNames()
	owner, err := s.tx.Owners(ctx, all)
	if err != nil {
		return fmt.Errorf("finding the owners of names: %w", err)
	}
	s.owner = owner
	byOrder, err := s.paymentsByOrder(ctx)
	if err != nil {
		return err
	}
	claimed, err := s.claimedPayments(ctx)
	if err != nil {
		return err
	}
	s.spread(byOrder, claimed)
	s.adopt()
	s.spread(byOrder, claimed)
	return s.findForeign(ctx, claimed)
}

func (s *step) collectNames() []store.ScopedName {
	var all []store.ScopedName
	for _, in := range s.inputs {
		for _, v := range in.event.Names {
			if !storable(v) || v == "" {
				continue
			}
			n := store.ScopedName{Scope: in.entry.Scope, Value: v}
			if !slices.Contains(in.names, n) {
				in.names = append(in.names, n)
			}
		}
		all = append(all, in.names...)
	}
	return all
}

// claimedPayments reads the payments that evidence names by our own id. The
// scope decides: an id of another account or mode attaches nothing.
func (s *step) claimedPayments(ctx context.Context) (map[string]store.Payment, error) {
	claimed := map[string]store.Payment{}
	for _, in := range s.inputs {
		id := in.event.Payment
		if id == "" || !storable(id) {
			continue
		}
		if _, ok := claimed[id]; ok {
			continue
		}
		p, err := s.tx.Payment(ctx, id)
		switch {
		case err == nil:
			claimed[id] = p
		case !isNotFound(err):
			return nil, fmt.Errorf("reading payment %s: %w", id, err)
		}
	}
	return claimed, nil
}

// paymentsByOrder finds, for orders that evidence names, the one payment that
// was registered without references. Two of them identify nothing.
func (s *step) paymentsByOrder(ctx context.Context) (map[store.ScopedName]string, error) {
	var keys []store.OrderKey
	for _, in := range s.inputs {
		if in.event.Order != "" && s.unowned(in) {
			keys = append(keys, in.orderKey())
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	slices.SortFunc(keys, compareOrderKeys)
	payments, err := s.tx.PaymentsOfOrders(ctx, slices.Compact(keys))
	if err != nil {
		return nil, fmt.Errorf("reading payments of orders: %w", err)
	}
	found := map[store.ScopedName]string{}
	for _, p := range payments {
		if !p.ByOrder {
			continue
		}
		n := store.ScopedName{Scope: p.Scope, Value: OrderName(p.Order.ID)}
		if _, two := found[n]; two {
			found[n] = ""
			continue
		}
		found[n] = p.ID
	}
	return found, nil
}

func (s *step) unowned(in *input) bool {
	for _, n := range in.names {
		if s.owner[n] != "" {
			return false
		}
	}
	return true
}

func (in *input) orderKey() store.OrderKey {
	return store.OrderKey{Shop: in.account.Shop, ID: in.event.Order}
}

// spread attaches inputs to payments by names until nothing changes: an input
// that is attached teaches the batch its other names.
func (s *step) spread(byOrder map[store.ScopedName]string, claimed map[string]store.Payment) {
	for changed := true; changed; {
		changed = false
		for _, in := range s.inputs {
			if in.payment != "" || len(in.rivals) > 0 {
				continue
			}
			found := s.candidates(in, claimed)
			if len(found) == 0 && in.event.Order != "" {
				if id := byOrder[store.ScopedName{Scope: in.entry.Scope, Value: OrderName(in.event.Order)}]; id != "" {
					found = append(found, id)
				}
			}
			switch {
			case len(found) == 1:
				s.attach(in, found[0])
				changed = true
			case len(found) > 1:
				in.rivals = found
			}
		}
	}
}

func (s *step) candidates(in *input, claimed map[string]store.Payment) []string {
	var found []string
	add := func(id string) {
		if id != "" && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	for _, n := range in.names {
		add(s.owner[n])
	}
	if p, ok := claimed[in.event.Payment]; ok && p.Scope == in.entry.Scope {
		add(p.ID)
	}
	slices.Sort(found)
	return found
}

func (s *step) attach(in *input, id string) {
	in.payment = id
	if s.payments[id] == nil {
		s.payments[id] = &paymentStep{id: id}
	}
	ps := s.payments[id]
	ps.inputs = append(ps.inputs, in)
	for _, n := range in.names {
		if s.owner[n] == "" {
			s.owner[n] = id
			ps.learned = append(ps.learned, n)
		}
	}
}

// findForeign looks whether evidence that fits no payment of its scope names
// one of another mode or connected account.
func (s *step) findForeign(ctx context.Context, claimed map[string]store.Payment) error {
	values := map[string][]string{}
	for _, in := range s.inputs {
		if in.payment != "" || len(in.rivals) > 0 {
			continue
		}
		if p, ok := claimed[in.event.Payment]; ok && p.Scope.Account == in.entry.Scope.Account {
			in.foreign = p.ID
			continue
		}
		for _, n := range in.names {
			values[n.Account] = append(values[n.Account], n.Value)
		}
	}
	for account, vs := range values {
		owners, err := s.tx.OwnersAnywhere(ctx, account, vs)
		if err != nil {
			return fmt.Errorf("finding owners in other scopes: %w", err)
		}
		for _, in := range s.inputs {
			if in.payment != "" || in.foreign != "" || in.entry.Scope.Account != account {
				continue
			}
			for _, n := range in.names {
				if ids := owners[n.Value]; len(ids) > 0 {
					in.foreign = ids[0]
				}
			}
		}
	}
	return nil
}

// adopt creates a payment for an authentic root object of an account that adopts.
func (s *step) adopt() {
	for _, in := range s.inputs {
		if in.payment != "" || len(in.rivals) > 0 || !in.event.Root || len(in.names) == 0 ||
			in.account.Unregistered != UnregisteredAdopt || !s.unowned(in) {
			continue
		}
		id := s.a.opt.NewID("pay")
		p := store.Payment{
			ID: id, Scope: in.entry.Scope, Order: in.orderKey(), Adopted: true,
			FulfillOn: in.account.FulfillOn, Rule: "exact", CreatedAt: s.now, UpdatedAt: s.now,
		}
		s.payments[id] = &paymentStep{id: id, row: p, adopted: true, account: in.account}
		s.attach(in, id)
	}
}

// recheckOrders runs after the names are locked: evidence that is about to wait
// under its order must not miss a registration without references that
// committed since resolve looked.
func (s *step) recheckOrders(ctx context.Context) error {
	var keys []store.OrderKey
	for _, in := range s.inputs {
		if in.payment == "" && in.result == nil && in.event.Order != "" {
			keys = append(keys, in.orderKey())
		}
	}
	if len(keys) == 0 {
		return nil
	}
	byOrder, err := s.paymentsByOrder(ctx)
	if err != nil {
		return err
	}
	for _, in := range s.inputs {
		if in.payment == "" && in.event.Order != "" && len(in.rivals) == 0 &&
			byOrder[store.ScopedName{Scope: in.entry.Scope, Value: OrderName(in.event.Order)}] != "" {
			return errAgain
		}
	}
	return nil
}

func compareOrderKeys(a, b store.OrderKey) int {
	if c := strings.Compare(a.Shop, b.Shop); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
}
