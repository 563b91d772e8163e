package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/unavez/unavez/store"
)

// MessageDocument is one thing that one destination is told.
type MessageDocument struct {
	ID            string             `json:"id" doc:"Also its Idempotency-Key and webhook-id"`
	Destination   string             `json:"destination"`
	Type          string             `json:"type"`
	Account       string             `json:"account,omitzero"`
	Payment       string             `json:"payment,omitzero"`
	Order         string             `json:"order,omitzero"`
	Sequence      int64              `json:"sequence"`
	State         store.MessageState `json:"state" enum:"pending,delivered,dead,ambiguous"`
	Attempts      int                `json:"attempts"`
	NextAttemptAt time.Time          `json:"next_attempt_at,omitzero"`
	Error         string             `json:"error,omitzero" doc:"The last failure"`
	CreatedAt     time.Time          `json:"created_at"`
	DeliveredAt   time.Time          `json:"delivered_at,omitzero"`
}

// MessageDetail is a message with its attempts.
type MessageDetail struct {
	MessageDocument
	Breaker string            `json:"breaker,omitzero" enum:"closed,half-open,open" doc:"Of the destination; open while nothing is sent to it"`
	History []AttemptDocument `json:"history"`
	Body    rawJSON           `json:"body,omitzero" doc:"What is sent. Missing for event.*, whose bytes stand at the event's payload."`
}

// AttemptDocument is one attempt to deliver a message.
type AttemptDocument struct {
	ID             string    `json:"id"`
	Number         int       `json:"number"`
	At             time.Time `json:"at"`
	DurationMillis int64     `json:"duration_ms"`
	Status         int       `json:"status,omitzero" doc:"HTTP status, missing without an answer"`
	Verdict        string    `json:"verdict" enum:"delivered,refused,not_sent,unknown"`
	Error          string    `json:"error,omitzero"`
}

type messageFilter struct {
	Paging
	Destination string `query:"destination"`
	Type        string `query:"type"`
	State       string `query:"state" enum:"pending,delivered,dead,ambiguous"`
	Payment     string `query:"payment"`
	Order       string `query:"order"`
}

func (a *API) registerMessages() {
	handle(a, call{
		id: "list-messages", method: http.MethodGet, path: "/v1/messages", tag: "messages", role: RoleRead, summary: "List messages",
	}, a.listMessages)
	handle(a, call{
		id: "get-message", method: http.MethodGet, path: "/v1/messages/{id}", tag: "messages", role: RoleRead,
		summary: "Read a message with its attempts",
	}, a.getMessage)
	handle(a, call{
		id: "retry-message", method: http.MethodPost, path: "/v1/messages/{id}/retry", tag: "messages", role: RoleOperate,
		status: http.StatusAccepted, summary: "Send a stopped message again", body: remarkBody{}, bodyOptional: true, codes: []Code{CodeNotRetryable},
		text: "Sends a dead or ambiguous message again under the id that it has, with all its attempts.",
	}, a.retryMessage)
}

func (a *API) listMessages(ctx context.Context, in *messageFilter) (*list[MessageDocument], error) {
	rows, err := view(ctx, a.deps.Store, func(tx store.Reader) ([]store.Message, error) {
		return tx.Messages(ctx, in.filter("destination", in.Destination, "type", in.Type, "state", in.State,
			"payment", in.Payment, "order", in.Order))
	})
	if err != nil {
		return nil, fmt.Errorf("listing messages: %w", err)
	}
	return page(rows, in.Limit, messageDocument), nil
}

func (a *API) getMessage(ctx context.Context, in *byID) (*one[MessageDetail], error) {
	d, err := view(ctx, a.deps.Store, func(tx store.Reader) (MessageDetail, error) {
		m, err := tx.Message(ctx, in.ID)
		if err != nil {
			return MessageDetail{}, err
		}
		attempts, err := tx.Attempts(ctx, in.ID)
		if err != nil {
			return MessageDetail{}, err
		}
		return messageDetail(m, attempts), nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading message %s: %w", in.ID, err)
	}
	states, err := a.deps.Relay.States(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		if s.Name == d.Destination {
			d.Breaker = s.Breaker
		}
	}
	return &one[MessageDetail]{Status: http.StatusOK, Body: d}, nil
}

func (a *API) retryMessage(ctx context.Context, in *byID) (*one[MessageDetail], error) {
	reason, err := remarkOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.deps.Relay.Retry(ctx, in.ID, actorOf(ctx), reason); err != nil {
		return nil, err
	}
	out, err := a.getMessage(ctx, in)
	if err != nil {
		return nil, err
	}
	out.Status = http.StatusAccepted
	return out, nil
}

func messageDocument(m store.Message) MessageDocument {
	d := MessageDocument{
		ID: m.ID, Destination: m.Destination, Type: m.Type, Account: m.Account, Payment: m.Payment, Order: m.Order,
		Sequence: m.Sequence, State: m.State, Attempts: m.Attempts, Error: m.LastError, CreatedAt: m.CreatedAt, DeliveredAt: m.DeliveredAt,
	}
	if m.State == store.MessagePending {
		d.NextAttemptAt = m.NextAt
	}
	return d
}

// typeOfEvents is the prefix of messages that carry a provider's own bytes.
const typeOfEvents = "event."

func messageDetail(m store.Message, attempts []store.Attempt) MessageDetail {
	d := MessageDetail{MessageDocument: messageDocument(m), History: make([]AttemptDocument, 0, len(attempts))}
	if !strings.HasPrefix(m.Type, typeOfEvents) {
		d.Body = rawJSON(m.Body)
	}
	for _, at := range attempts {
		d.History = append(d.History, AttemptDocument{
			ID: at.ID, Number: at.Number, At: at.At, DurationMillis: at.Duration.Milliseconds(), Status: at.Status,
			Verdict: at.Verdict, Error: at.Error,
		})
	}
	return d
}
