package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/provider/stripe"
	"github.com/unavez/unavez/store"
)

// Events that are pushed into the inbox, to be drained from there.
const (
	drainEvents  = 10000
	batchEvents  = 6000
	singleEvents = 1500
	pushRows     = 500
	// emptyFor is how long the workers look at an empty queue before a drain:
	// long enough for every claim to have been planned.
	emptyFor = 2500 * time.Millisecond
)

// push stores events of the payments from first on, with their work, in one
// transaction: workers see all of them at once.
func push(ctx context.Context, database string, first, count int) error {
	ledger, err := unavez.Open(ctx, database, nil)
	if err != nil {
		return err
	}
	defer ledger.Close()
	return ledger.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		for begin := 0; begin < count; begin += pushRows {
			n := min(pushRows, count-begin)
			if err := pushSome(ctx, tx, first+begin, n); err != nil {
				return err
			}
		}
		return nil
	})
}

func pushSome(ctx context.Context, tx store.Tx, first, count int) error {
	now := time.Now().UTC()
	entries := make([]store.EntryWithBody, count)
	work := make([]store.Work, count)
	for i := range entries {
		body := eventBody(fmt.Sprintf("evt_pushed_%08d", first+i), first+i, now)
		event, err := stripe.Adapter{}.Parse(&account, body)
		if err != nil {
			return err
		}
		entries[i] = store.EntryWithBody{
			Entry: store.Entry{
				ID: id.New(id.Event, now), Scope: store.Scope{Account: accountName, Mode: string(account.Mode)}, Identity: event.Identity,
				ProviderEventID: event.ProviderEventID, Type: event.Type, Source: store.SourceWebhook,
				ReceivedAt: now, OccurredAt: event.OccurredAt, BodyDigest: make([]byte, 32), FactDigest: make([]byte, 32),
			},
			Body: store.Body{Bytes: body, Header: []byte("{}")},
		}
		work[i] = store.Work{Queue: store.QueueInbox, ID: entries[i].ID, Lane: accountName + "/" + string(account.Mode) + "//" + event.Lane}
	}
	if _, err := tx.InsertEntries(ctx, entries); err != nil {
		return err
	}
	return tx.Enqueue(ctx, work)
}

// drainJob says how a full inbox is drained.
type drainJob struct {
	events int
	alone  bool
	// early starts the workers on the empty inbox; otherwise the tables are
	// analyzed once they are full, and the workers start then.
	early bool
}

// drain returns the events per second at which a full inbox is worked off.
func (b *bench) drain(ctx context.Context, d drainJob) (rate float64, err error) {
	name, err := b.server.fresh(ctx, "unavez", d.events)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.server.drop(ctx, name)) }()
	w, err := b.server.watch(ctx, name, "unavez")
	if err != nil {
		return 0, err
	}
	defer w.close()
	address := b.server.address(name)
	b.runs++
	j := job{spec: spec{Kind: "unavez", Database: address, Work: true, Alone: d.alone}}
	j.spec.Profile = b.profile(j)
	if !d.early {
		if err := push(ctx, address, 0, d.events); err != nil {
			return 0, err
		}
		if _, err := w.conn.Exec(ctx, `ANALYZE`); err != nil {
			return 0, err
		}
	}
	begun := time.Now()
	c, err := start(ctx, j.spec)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if d.early {
		// Idle looks are what this waits for; there is no other sign of them.
		time.Sleep(emptyFor)
		if err := push(ctx, address, 0, d.events); err != nil {
			return 0, err
		}
		begun = time.Now()
	}
	if err := w.drained(ctx, j); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	n, err := w.captured(ctx)
	if err == nil && n != d.events {
		err = fmt.Errorf("%d payments are captured, not %d", n, d.events)
	}
	return float64(d.events) / took.Seconds(), err
}

// drains measures two ways in turns, and returns the median of second by first.
func (b *bench) drains(ctx context.Context, first, second drainJob) (float64, error) {
	var ratios []float64
	for round := range b.rounds {
		turn, got := []drainJob{first, second}, make([]float64, 2)
		for i := range turn {
			at := (i + round) % 2
			rate, err := b.drain(ctx, turn[at])
			if err != nil {
				return 0, err
			}
			got[at] = rate
			fmt.Fprintf(b.talk, "  %+v: %.0f events/s\n", turn[at], rate)
		}
		ratios = append(ratios, got[1]/got[0])
	}
	return median(ratios), nil
}

func drainAfterEmpty(ctx context.Context, b *bench) ([]reached, error) {
	r, err := b.drains(ctx, drainJob{events: b.events(drainEvents)}, drainJob{events: b.events(drainEvents), early: true})
	return []reached{{"drain_after_empty", r}}, err
}

func batchOfSingle(ctx context.Context, b *bench) ([]reached, error) {
	r, err := b.drains(ctx, drainJob{events: singleEvents, alone: true}, drainJob{events: batchEvents})
	return []reached{{"batch_of_single", r}}, err
}

// bareEvents is the number of single inserts and single deliveries in a round.
const bareEvents = 1500

const bareTable = `CREATE TABLE bare (id text PRIMARY KEY, body bytea NOT NULL);
ALTER TABLE bare ALTER COLUMN body SET STORAGE EXTENDED`

// oneClient compares the median time of a delivery with that of one insert of
// the same bytes, durable, without anything around it.
func oneClient(ctx context.Context, b *bench) ([]reached, error) {
	var ratios []float64
	for range b.rounds {
		bare, err := b.bare(ctx)
		if err != nil {
			return nil, err
		}
		ours, err := b.run(ctx, job{spec: whole, connections: 1, events: b.events(bareEvents)})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(b.talk, "  bare     p50 %.2f ms\n  unavez   %s\n", ms(bare), ours)
		ratios = append(ratios, float64(ours.p50)/float64(bare))
	}
	return []reached{{"one_client_p50", median(ratios)}}, nil
}

// bare is the median time of one durable insert over one connection.
func (b *bench) bare(ctx context.Context) (p50 time.Duration, err error) {
	conn, drop, err := b.bareDatabase(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	took, now := make([]float64, b.events(bareEvents)), time.Now()
	for i := range took {
		event := fmt.Sprintf("evt_%08d", i)
		body := eventBody(event, i, now)
		begun := time.Now()
		if _, err := conn.Exec(ctx, `INSERT INTO bare (id, body) VALUES ($1, $2)`, event, body); err != nil {
			return 0, err
		}
		took[i] = float64(time.Since(begun))
	}
	return time.Duration(median(took)), nil
}

// bareDatabase makes a database with nothing but a table of bytes.
func (b *bench) bareDatabase(ctx context.Context) (*pgx.Conn, func() error, error) {
	b.server.next++
	name := fmt.Sprintf("%sbare_%d", databasePrefix, b.server.next)
	b.server.made[name] = true
	if err := b.server.exec(ctx, `CREATE DATABASE `+name); err != nil {
		return nil, nil, err
	}
	conn, err := pgx.Connect(ctx, b.server.address(name))
	if err != nil {
		return nil, nil, err
	}
	drop := func() error {
		return errors.Join(conn.Close(context.WithoutCancel(ctx)), b.server.drop(context.WithoutCancel(ctx), name))
	}
	if _, err := conn.Exec(ctx, bareTable); err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	return conn, drop, nil
}
