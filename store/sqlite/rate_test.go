package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/unavez/unavez/store"
)

const (
	benchBatch = 128
	benchBody  = 3 << 10
)

// BenchmarkReceive commits batches as the inbox does: entries with bodies of
// 3 KB and their work. The rate is rows per second.
func BenchmarkReceive(b *testing.B) {
	s := benchStore(b)
	line := []byte(`{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","api_version":"2026-01-28","amount":4800,"currency":"eur"},`)
	body := bytes.Repeat(line, benchBody/len(line))
	now := time.Now()
	b.ResetTimer()
	for round := range b.N {
		entries := make([]store.EntryWithBody, benchBatch)
		work := make([]store.Work, benchBatch)
		for i := range entries {
			id := fmt.Sprintf("evt_%012d%04d", round, i)
			entries[i] = store.EntryWithBody{
				Entry: store.Entry{
					ID: id, Scope: store.Scope{Account: "acc", Mode: "live"}, Identity: "e" + id, ProviderEventID: "p" + id, Type: "charge.captured",
					Source: store.SourceWebhook, ReceivedAt: now, OccurredAt: now, BodyDigest: body[:32], FactDigest: body[:32],
				},
				Body: store.Body{Bytes: body, Header: []byte(`{"content-type":"application/json"}`)},
			}
			work[i] = store.Work{Queue: store.QueueInbox, ID: id, Lane: "pi_" + id}
		}
		benchTx(b, s, func(ctx context.Context, tx store.Tx) error {
			if _, err := tx.InsertEntries(ctx, entries); err != nil {
				return err
			}
			return tx.Enqueue(ctx, work)
		})
	}
	b.ReportMetric(float64(b.N*benchBatch)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkDrain claims and completes what was enqueued, in batches.
func BenchmarkDrain(b *testing.B) {
	s := benchStore(b)
	ctx := b.Context()
	for round := range b.N {
		work := make([]store.Work, benchBatch)
		for i := range work {
			id := fmt.Sprintf("evt_%012d%04d", round, i)
			work[i] = store.Work{Queue: store.QueueInbox, ID: id, Lane: "pi_" + id}
		}
		benchTx(b, s, func(ctx context.Context, tx store.Tx) error { return tx.Enqueue(ctx, work) })
	}
	b.ResetTimer()
	for range b.N {
		c, err := s.Claim(ctx, store.ClaimRequest{Queue: store.QueueInbox, Lanes: benchBatch, PerLane: 16, Lease: time.Hour})
		if err != nil || len(c.Items) != benchBatch {
			b.Fatalf("claimed %d items, %v", len(c.Items), err)
		}
		ids := make([]string, len(c.Items))
		for i := range ids {
			ids[i] = c.Items[i].ID
		}
		benchTx(b, s, func(ctx context.Context, tx store.Tx) error {
			if err := tx.Complete(ctx, store.QueueInbox, c.Token, ids); err != nil {
				return err
			}
			return tx.Release(ctx, store.QueueInbox, c.Token)
		})
	}
	b.ReportMetric(float64(b.N*benchBatch)/b.Elapsed().Seconds(), "rows/s")
}

func benchStore(b *testing.B) store.Store {
	b.Helper()
	s, err := openFile(b.Context(), b.TempDir()+"/ledger.db")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	if _, err := s.MigrateUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	return s
}

func benchTx(b *testing.B, s store.Store, fn func(context.Context, store.Tx) error) {
	b.Helper()
	ctx := b.Context()
	if err := s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return fn(ctx, tx) }); err != nil {
		b.Fatal(err)
	}
}
