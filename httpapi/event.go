package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/unavez/unavez/store"
)

// EventDocument is one piece of evidence and how far it has come.
type EventDocument struct {
	ID               string       `json:"id"`
	ProviderEventID  string       `json:"provider_event_id"`
	Account          string       `json:"account"`
	Mode             string       `json:"mode"`
	ConnectedAccount string       `json:"connected_account,omitzero"`
	Type             string       `json:"type"`
	Source           store.Source `json:"source" enum:"webhook,answer,lookup,report,correction,backfill"`
	State            string       `json:"state" enum:"received,processing,processed,waiting,dead"`
	Outcome          string       `json:"outcome,omitzero" enum:"applied,duplicate,ignored,contradiction"`
	Reason           string       `json:"reason,omitzero"`
	Payment          string       `json:"payment,omitzero"`
	Order            string       `json:"order,omitzero"`
	Deliveries       int          `json:"deliveries" doc:"How often it came; may lag by seconds"`
	ReceivedAt       time.Time    `json:"received_at"`
	OccurredAt       time.Time    `json:"occurred_at,omitzero"`
	LastDeliveredAt  time.Time    `json:"last_delivered_at"`
	ProcessedAt      time.Time    `json:"processed_at,omitzero"`
	Attempts         int          `json:"attempts"`
	NextAttemptAt    time.Time    `json:"next_attempt_at,omitzero"`
	VariantOf        string       `json:"variant_of,omitzero" doc:"The event of which this is a copy with other facts"`
	Error            string       `json:"error,omitzero" doc:"The last failure"`
}

type eventFilter struct {
	Paging
	Account         string `query:"account"`
	Mode            string `query:"mode" enum:"live,test"`
	Type            string `query:"type"`
	State           string `query:"state" enum:"received,processing,processed,waiting,dead"`
	Outcome         string `query:"outcome" enum:"applied,duplicate,ignored,contradiction"`
	Payment         string `query:"payment"`
	Order           string `query:"order"`
	ProviderEventID string `query:"provider_event_id"`
	Source          string `query:"source" enum:"webhook,answer,lookup,report,correction,backfill"`
	VariantOf       string `query:"variant_of"`
}

func (a *API) registerEvents() {
	handle(a, call{
		id: "list-events", method: http.MethodGet, path: "/v1/events", tag: "events", role: RoleRead, summary: "List events",
	}, a.listEvents)
	handle(a, call{
		id: "get-event", method: http.MethodGet, path: "/v1/events/{id}", tag: "events", role: RoleRead, summary: "Read an event",
	}, a.getEvent)
	handle(a, call{
		id: "event-payload", method: http.MethodGet, path: "/v1/events/{id}/payload", tag: "events", role: RoleRead,
		summary: "Read the bytes of an event", raw: "application/octet-stream",
		text: "The bytes exactly as they were received, with their SHA-256 in `Repr-Digest`. They are never sent as a type that a browser would render.",
	}, a.eventPayload)
	handle(a, call{
		id: "redrive-event", method: http.MethodPost, path: "/v1/events/{id}/redrive", tag: "events", role: RoleOperate,
		status: http.StatusAccepted, summary: "Work on a dead event again", body: reasonBody{},
		codes: []Code{CodeNotRedrivable, CodeAlreadyRunning},
		text:  "Gives the event its attempts back and queues it under the identity that it has.",
	}, a.redriveEvent)
}

func (a *API) listEvents(ctx context.Context, in *eventFilter) (*list[EventDocument], error) {
	rows, err := view(ctx, a.deps.Store, func(tx store.Reader) ([]store.EntryStatus, error) {
		return tx.Entries(ctx, in.filter("account", in.Account, "mode", in.Mode, "type", in.Type, "state", in.State,
			"outcome", in.Outcome, "payment", in.Payment, "order", in.Order, "provider_event_id", in.ProviderEventID,
			"source", in.Source, "variant_of", in.VariantOf))
	})
	if err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	return page(rows, in.Limit, eventDocument), nil
}

func (a *API) getEvent(ctx context.Context, in *byID) (*one[EventDocument], error) {
	row, err := view(ctx, a.deps.Store, func(tx store.Reader) (store.EntryStatus, error) { return tx.Entry(ctx, in.ID) })
	if err != nil {
		return nil, fmt.Errorf("reading event %s: %w", in.ID, err)
	}
	return &one[EventDocument]{Status: http.StatusOK, Body: eventDocument(row)}, nil
}

func (a *API) redriveEvent(ctx context.Context, in *byID) (*one[EventDocument], error) {
	reason, err := reasonOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.deps.Applier.Redrive(ctx, in.ID, actorOf(ctx), reason); err != nil {
		return nil, fmt.Errorf("redriving event %s: %w", in.ID, err)
	}
	out, err := a.getEvent(ctx, in)
	if err != nil {
		return nil, err
	}
	out.Status = http.StatusAccepted
	return out, nil
}

// payload is an answer of raw bytes.
type payload struct {
	Body func(huma.Context)
}

func (a *API) eventPayload(ctx context.Context, in *byID) (*payload, error) {
	body, err := view(ctx, a.deps.Store, func(tx store.Reader) (store.Body, error) { return tx.Body(ctx, in.ID) })
	if err != nil {
		return nil, fmt.Errorf("reading the bytes of event %s: %w", in.ID, err)
	}
	digest := sha256.Sum256(body.Bytes)
	return &payload{Body: func(w huma.Context) {
		w.SetHeader("Content-Type", "application/octet-stream")
		w.SetHeader("Content-Disposition", "attachment")
		w.SetHeader("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(digest[:])+":")
		w.SetStatus(http.StatusOK)
		if _, err := w.BodyWriter().Write(body.Bytes); err != nil {
			a.log(ctx, slog.LevelDebug, "bytes not sent", slog.String("event", in.ID), slog.String("error", err.Error()))
		}
	}}, nil
}

// deliveries counts how often the event came; the ledger counts those after the first.
func deliveries(e store.EntryStatus) int { return 1 + e.Deliveries }

func eventDocument(e store.EntryStatus) EventDocument {
	d := EventDocument{
		ID: e.ID, ProviderEventID: e.ProviderEventID, Account: e.Scope.Account, Mode: e.Scope.Mode, ConnectedAccount: e.Scope.Connected,
		Type: e.Type, Source: e.Source, State: e.State, Outcome: e.Outcome, Reason: e.Reason, Payment: e.Payment, Order: e.Order,
		Deliveries: deliveries(e), ReceivedAt: e.ReceivedAt, OccurredAt: e.OccurredAt, LastDeliveredAt: e.LastDeliveredAt,
		ProcessedAt: e.At, Attempts: e.Attempts, NextAttemptAt: e.NextAt, VariantOf: e.VariantOf, Error: e.Error,
	}
	if d.LastDeliveredAt.IsZero() {
		d.LastDeliveredAt = e.ReceivedAt
	}
	if e.State != store.EntryProcessed && e.State != store.EntryDead {
		d.Attempts, d.Error, d.ProcessedAt = e.WorkAttempts, e.LastError, time.Time{}
	} else {
		// What is settled and still filed has an instant at which it stops to be.
		d.NextAttemptAt = time.Time{}
	}
	return d
}
