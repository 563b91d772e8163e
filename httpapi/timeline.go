package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// Kinds of moments.
const (
	momentEvidence  = "evidence"
	momentAudit     = "audit"
	momentMessage   = "message"
	momentException = "exception"
)

// MomentDocument is one line of a payment's history. Which members it has
// depends on its kind.
type MomentDocument struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind" enum:"evidence,audit,message,exception"`
	ID   string    `json:"id" doc:"Of the event, audit row, message or exception"`
	Type string    `json:"type,omitzero" doc:"Type of the event or message, action of the audit row, kind of the exception"`
	// State is the state as it is now, not as it was then.
	State           string         `json:"state,omitzero" doc:"As it is now"`
	ProviderEventID string         `json:"provider_event_id,omitzero"`
	Source          store.Source   `json:"source,omitzero"`
	Outcome         string         `json:"outcome,omitzero"`
	Deliveries      int            `json:"deliveries,omitzero"`
	Facts           []FactDocument `json:"facts,omitzero" doc:"What the evidence was the first to prove"`
	Actor           string         `json:"actor,omitzero"`
	Event           string         `json:"event,omitzero"`
	Destination     string         `json:"destination,omitzero"`
	Attempts        int            `json:"attempts,omitzero"`
	Reason          string         `json:"reason,omitzero"`
	Detail          rawJSON        `json:"detail,omitzero"`
}

// FactDocument is a fact as it is stored.
type FactDocument struct {
	Kind   payment.Kind  `json:"kind"`
	Form   payment.Form  `json:"form,omitzero"`
	Object string        `json:"object"`
	Parent string        `json:"parent,omitzero"`
	Stage  payment.Stage `json:"stage,omitzero"`
	Amount payment.Money `json:"amount,omitzero"`
}

func (a *API) paymentTimeline(ctx context.Context, in *byID) (*list[MomentDocument], error) {
	moments, err := view(ctx, a.deps.Store, func(tx store.Reader) ([]MomentDocument, error) {
		if _, err := tx.Payment(ctx, in.ID); err != nil {
			return nil, err
		}
		var all []MomentDocument
		for _, read := range []func(context.Context, store.Reader, string) ([]MomentDocument, error){
			evidenceOf, auditOf, messagesOf, exceptionsOf,
		} {
			some, err := read(ctx, tx, in.ID)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the history of payment %s: %w", in.ID, err)
	}
	slices.SortStableFunc(moments, func(x, y MomentDocument) int {
		return cmp.Or(x.At.Compare(y.At), cmp.Compare(rank(x.Kind), rank(y.Kind)), cmp.Compare(x.ID, y.ID))
	})
	return page(moments, timelineRowsMax, func(m MomentDocument) MomentDocument { return m }), nil
}

// rank orders what has one instant: cause before consequence.
func rank(kind string) int {
	return slices.Index([]string{momentEvidence, momentAudit, momentException, momentMessage}, kind)
}

// every reads a list to its end, within the bound of a history.
func every[R any](ctx context.Context, where map[string]string, read func(context.Context, store.List) ([]R, error), idOf func(R) string) ([]R, error) {
	var all []R
	l := store.List{Where: where, Limit: limitMax}
	for len(all) <= timelineRowsMax {
		rows, err := read(ctx, l)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
		if len(rows) < l.Limit {
			break
		}
		l.After = idOf(rows[len(rows)-1])
	}
	return all, nil
}

func evidenceOf(ctx context.Context, tx store.Reader, id string) ([]MomentDocument, error) {
	entries, err := every(ctx, map[string]string{"payment": id}, tx.Entries, func(e store.EntryStatus) string { return e.ID })
	if err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	facts, err := tx.Facts(ctx, []string{id})
	if err != nil {
		return nil, fmt.Errorf("reading facts: %w", err)
	}
	byEntry := map[string][]FactDocument{}
	for _, f := range facts {
		byEntry[f.EntryID] = append(byEntry[f.EntryID], FactDocument{
			Kind: f.Kind, Form: f.Form, Object: f.Object, Parent: f.Parent, Stage: f.Stage, Amount: f.Amount,
		})
	}
	moments := make([]MomentDocument, 0, len(entries))
	for _, e := range entries {
		moments = append(moments, MomentDocument{
			At: e.ReceivedAt, Kind: momentEvidence, ID: e.ID, Type: e.Type, State: e.State, ProviderEventID: e.ProviderEventID,
			Source: e.Source, Outcome: e.Outcome, Deliveries: deliveries(e), Facts: byEntry[e.ID], Reason: e.Reason,
		})
	}
	return moments, nil
}

func auditOf(ctx context.Context, tx store.Reader, id string) ([]MomentDocument, error) {
	rows, err := tx.AuditChain(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("reading the audit: %w", err)
	}
	moments := make([]MomentDocument, 0, len(rows))
	for _, r := range rows {
		moments = append(moments, MomentDocument{
			At: r.At, Kind: momentAudit, ID: r.ID, Type: r.Action, Actor: r.Actor, Event: r.Entry, Detail: rawJSON(r.Detail),
		})
	}
	return moments, nil
}

func messagesOf(ctx context.Context, tx store.Reader, id string) ([]MomentDocument, error) {
	rows, err := every(ctx, map[string]string{"payment": id}, tx.Messages, func(m store.Message) string { return m.ID })
	if err != nil {
		return nil, fmt.Errorf("listing messages: %w", err)
	}
	moments := make([]MomentDocument, 0, len(rows))
	for _, m := range rows {
		moments = append(moments, MomentDocument{
			At: m.CreatedAt, Kind: momentMessage, ID: m.ID, Type: m.Type, State: string(m.State), Destination: m.Destination, Attempts: m.Attempts,
		})
	}
	return moments, nil
}

func exceptionsOf(ctx context.Context, tx store.Reader, id string) ([]MomentDocument, error) {
	rows, err := every(ctx, map[string]string{"payment": id}, tx.Exceptions, func(e store.Exception) string { return e.ID })
	if err != nil {
		return nil, fmt.Errorf("listing exceptions: %w", err)
	}
	moments := make([]MomentDocument, 0, len(rows))
	for _, e := range rows {
		moments = append(moments, MomentDocument{
			At: e.OpenedAt, Kind: momentException, ID: e.ID, Type: e.Kind, State: e.State, Event: e.Event, Reason: e.Reason,
			Detail: rawJSON(e.Detail),
		})
	}
	return moments, nil
}
