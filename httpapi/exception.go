package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// ExceptionDocument is something that needs a person.
type ExceptionDocument struct {
	ID              string        `json:"id"`
	Kind            string        `json:"kind" enum:"dead_letter,unresolved_operation,discrepancy,contradiction,surplus,unmatched_event,ambiguous_message,provider_silent"`
	Reason          string        `json:"reason"`
	State           string        `json:"state" enum:"open,acknowledged,explained,resolved"`
	Urgency         string        `json:"urgency,omitzero"`
	Account         string        `json:"account,omitzero"`
	Event           string        `json:"event,omitzero"`
	ProviderEventID string        `json:"provider_event_id,omitzero"`
	Payment         string        `json:"payment,omitzero"`
	Order           string        `json:"order,omitzero"`
	Operation       string        `json:"operation,omitzero"`
	Message         string        `json:"message,omitzero"`
	Amount          payment.Money `json:"amount,omitzero"`
	Detail          rawJSON       `json:"detail,omitzero" doc:"What was seen and what is proposed"`
	OpenedAt        time.Time     `json:"opened_at"`
	UpdatedAt       time.Time     `json:"updated_at"`
	ClosedAt        time.Time     `json:"closed_at,omitzero"`
	Closing         string        `json:"closing,omitzero" doc:"Why it closed"`
}

type exceptionFilter struct {
	Paging
	Kind            string `query:"kind"`
	State           string `query:"state" enum:"open,acknowledged,explained,resolved"`
	Account         string `query:"account"`
	Event           string `query:"event"`
	ProviderEventID string `query:"provider_event_id"`
	Payment         string `query:"payment"`
	Order           string `query:"order"`
	Operation       string `query:"operation"`
	Message         string `query:"message"`
}

func (a *API) registerExceptions() {
	handle(a, call{
		id: "list-exceptions", method: http.MethodGet, path: "/v1/exceptions", tag: "exceptions", role: RoleRead, summary: "List exceptions",
	}, a.listExceptions)
	handle(a, call{
		id: "get-exception", method: http.MethodGet, path: "/v1/exceptions/{id}", tag: "exceptions", role: RoleRead, summary: "Read an exception",
	}, a.getException)
}

func (a *API) listExceptions(ctx context.Context, in *exceptionFilter) (*list[ExceptionDocument], error) {
	rows, err := view(ctx, a.deps.Store, func(tx store.Reader) ([]store.Exception, error) {
		return tx.Exceptions(ctx, in.filter("kind", in.Kind, "state", in.State, "account", in.Account, "event", in.Event,
			"provider_event_id", in.ProviderEventID, "payment", in.Payment, "order", in.Order, "operation", in.Operation,
			"message", in.Message))
	})
	if err != nil {
		return nil, fmt.Errorf("listing exceptions: %w", err)
	}
	return page(rows, in.Limit, exceptionDocumentOf), nil
}

func (a *API) getException(ctx context.Context, in *byID) (*one[ExceptionDocument], error) {
	row, err := view(ctx, a.deps.Store, func(tx store.Reader) (store.Exception, error) { return tx.Exception(ctx, in.ID) })
	if err != nil {
		return nil, fmt.Errorf("reading exception %s: %w", in.ID, err)
	}
	return &one[ExceptionDocument]{Status: http.StatusOK, Body: exceptionDocumentOf(row)}, nil
}

func exceptionDocumentOf(e store.Exception) ExceptionDocument {
	return ExceptionDocument{
		ID: e.ID, Kind: e.Kind, Reason: e.Reason, State: e.State, Urgency: e.Urgency, Account: e.Account, Event: e.Event,
		ProviderEventID: e.ProviderEventID, Payment: e.Payment, Order: e.Order, Operation: e.Operation, Message: e.Message,
		Amount: e.Amount, Detail: rawJSON(e.Detail), OpenedAt: e.OpenedAt, UpdatedAt: e.UpdatedAt, ClosedAt: e.ClosedAt, Closing: e.Closing,
	}
}
