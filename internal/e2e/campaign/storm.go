package campaign

import (
	"context"
	"fmt"
)

// Storm is the flood of duplicates.
var Storm = Campaign{
	Name:  "storm",
	About: "every event ten times, shuffled, over 64 connections to three processes: each order is fulfilled once, no answer but 2xx",
	Units: func(bool) []Unit { return onStores("storm", storm) },
}

const (
	stormFull        = 5000
	stormCI          = 300
	stormCopies      = 10
	stormConnections = 64
	stormProcesses   = 3
	// stormSecond is the share of facts that come under a second event id: one in ten.
	stormSecond = 10
)

func storm(ctx context.Context, e *Env, kind string) (string, error) {
	w, err := newWorld(ctx, e, kind, options{})
	if err != nil {
		return "", err
	}
	defer w.close()
	orders, processes := stormCI, stormProcesses
	if e.Full {
		orders = stormFull
	}
	if kind == sqliteStore {
		processes = 1
	}
	var nodes []*node
	for range processes {
		n, err := w.start(ctx, crash{})
		if err != nil {
			return "", err
		}
		nodes = append(nodes, n)
	}
	expected, registrations, deliveries := stormOf(e, orders)
	if err := registerAll(ctx, w, registrations, func(i int) *node { return nodes[i%len(nodes)] }); err != nil {
		return "", err
	}
	s := newSender(w.client)
	s.storm(ctx, stormConnections, deliveries, func(i int) string { return nodes[i%len(nodes)].ingress }, nil)
	if others := s.others(); others != "" {
		return "", fmt.Errorf("answers that were no acknowledgement: %s", others)
	}
	if err := w.settle(ctx, nodes[0]); err != nil {
		return "", err
	}
	if err := w.judge(ctx, nodes[0], s, expected); err != nil {
		return "", err
	}
	fulfilled := w.shop.effects("order.fulfill")
	if len(fulfilled) != orders {
		return "", fmt.Errorf("%d orders were fulfilled, want %d", len(fulfilled), orders)
	}
	for _, n := range nodes {
		if err := n.stop(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d deliveries of %d events in %d process(es), all acknowledged, %d orders fulfilled once each",
		len(deliveries), len(s.acked), processes, len(fulfilled)), nil
}

// stormOf draws the deliveries of the orders.
func stormOf(e *Env, orders int) (expected []expectation, registrations []registration, deliveries []delivery) {
	for i := range orders {
		order, in := fmt.Sprintf("S-%d", i), fmt.Sprintf("pi_storm_%d", i)
		x := expectation{order: order, pays: []delivery{succeeded("evt_"+in, in, order, 4800)}}
		if i%stormSecond == 0 {
			x.pays = append(x.pays, succeeded("evt_second_"+in, in, order, 4800))
		}
		expected = append(expected, x)
		registrations = append(registrations, registration{Order: order, Amount: eur(4800), References: []string{in}})
		for _, d := range x.pays {
			for range stormCopies {
				deliveries = append(deliveries, d)
			}
		}
	}
	e.Rand().Shuffle(len(deliveries), func(i, j int) { deliveries[i], deliveries[j] = deliveries[j], deliveries[i] })
	return expected, registrations, deliveries
}
