package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/store"
)

// Audit actions and words of what a person does.
const (
	actionPaused  = "destination.paused"
	actionResumed = "destination.resumed"
	actionTested  = "destination.tested"

	// TypeTest is the type of a test message. It goes to the destination that is
	// tested, whatever it subscribes to.
	TypeTest = "destination.test"

	settingPaused  = "true"
	closingRetried = "retried"
	idAudit        = "aud"
)

func pausedKey(destination string) string { return "destination." + destination + ".paused" }
func goneKey(destination string) string   { return "destination." + destination + ".gone" }

// subjectOf is the audit subject of a destination.
func subjectOf(destination string) string { return "destination." + destination }

func isPaused(ctx context.Context, r store.Reader, destination string) (bool, error) {
	value, err := setting(ctx, r, pausedKey(destination))
	return value == settingPaused, err
}

func goneAt(ctx context.Context, r store.Reader, destination string) (time.Time, error) {
	value, err := setting(ctx, r, goneKey(destination))
	if err != nil || value == "" {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading %s: %w", goneKey(destination), err)
	}
	return at, nil
}

func setting(ctx context.Context, r store.Reader, key string) (string, error) {
	value, err := r.Setting(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("reading %s: %w", key, err)
	}
	return value, nil
}

type whyDetail struct {
	Reason  string `json:"reason,omitzero"`
	Message string `json:"message,omitzero"`
}

// Retry sends a dead or ambiguous message again under the id that it has, with
// all its attempts. It closes the message's exceptions. A message that is being
// tried or is delivered is ErrNotStopped, so that asking twice does nothing twice.
func (r *Relay) Retry(ctx context.Context, message, actor, reason string) error {
	if actor == "" {
		return ErrWho
	}
	var queue string
	err := r.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		m, err := r.stopped(ctx, tx, message)
		if err != nil {
			return err
		}
		queue = store.QueueOutbox(m.Destination)
		history, err := tx.Attempts(ctx, message)
		if err != nil {
			return err
		}
		detail := retriedDetail{Reason: reason, Attempts: len(history), Destination: m.Destination, State: string(m.State)}
		// The row's subject is locked from here on: of two people the second finds
		// the message pending.
		if err := r.audit(ctx, tx, message, actionRetried, actor, detail); err != nil {
			return err
		}
		if _, err := r.stopped(ctx, tx, message); err != nil {
			return err
		}
		if err := tx.RecordAttempts(ctx, nil, map[string]store.MessageState{message: store.MessagePending}); err != nil {
			return err
		}
		if err := r.closeExceptions(ctx, tx, message); err != nil {
			return err
		}
		return tx.Enqueue(ctx, []store.Work{{Queue: queue, ID: message, Lane: m.Lane}})
	})
	if err != nil {
		return fmt.Errorf("retrying message %s: %w", message, err)
	}
	return nil
}

// stopped returns the message if it is dead or ambiguous.
func (r *Relay) stopped(ctx context.Context, tx store.Tx, message string) (store.Message, error) {
	m, err := tx.Message(ctx, message)
	switch {
	case err != nil:
		return store.Message{}, err
	case m.State != store.MessageDead && m.State != store.MessageAmbiguous:
		return store.Message{}, fmt.Errorf("%w: it is %s", ErrNotStopped, m.State)
	case r.groups[m.Destination] == nil:
		return store.Message{}, fmt.Errorf("%w: %s", ErrDestination, m.Destination)
	}
	return m, nil
}

func (r *Relay) closeExceptions(ctx context.Context, tx store.Tx, message string) error {
	found, err := tx.ConditionsOf(ctx, []string{message})
	if err != nil {
		return err
	}
	var closed []store.Exception
	now := stored(r.opt.Now())
	for _, e := range found {
		if e.State != store.ExceptionResolved {
			e.State, e.UpdatedAt, e.ClosedAt, e.Closing = store.ExceptionResolved, now, now, closingRetried
			closed = append(closed, e)
		}
	}
	if len(closed) == 0 {
		return nil
	}
	return tx.PutExceptions(ctx, closed)
}

// Pause stops claims for the destination, in every relay, until Resume. What is
// under way ends; messages gather. Pausing again changes nothing.
func (r *Relay) Pause(ctx context.Context, destination, actor, reason string) error {
	return r.set(ctx, destination, actor, reason, actionPaused, map[string]string{pausedKey(destination): settingPaused})
}

// Resume lets a destination have its messages again, also one that answered
// that it is gone or asked for a pause. Resuming again changes nothing.
func (r *Relay) Resume(ctx context.Context, destination, actor, reason string) error {
	err := r.set(ctx, destination, actor, reason, actionResumed,
		map[string]string{pausedKey(destination): "", goneKey(destination): ""})
	if err == nil {
		g := r.groups[destination]
		g.heldUntil.Store(0)
		g.wake()
	}
	return err
}

func (r *Relay) set(ctx context.Context, destination, actor, reason, action string, settings map[string]string) error {
	if r.groups[destination] == nil {
		return fmt.Errorf("%w: %s", ErrDestination, destination)
	}
	if actor == "" {
		return ErrWho
	}
	err := r.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		for key, value := range settings {
			if err := tx.SetSetting(ctx, key, value); err != nil {
				return err
			}
		}
		return r.audit(ctx, tx, subjectOf(destination), action, actor, whyDetail{Reason: reason})
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, destination, err)
	}
	return nil
}

type testBody struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Sequence  int64     `json:"sequence"`
	CreatedAt time.Time `json:"created_at"`
	Data      testData  `json:"data"`
}

type testData struct {
	Destination string `json:"destination"`
}

// Test sends a message of TypeTest to the destination through the same queue as
// every other, and returns its id. A paused destination gets it when resumed.
func (r *Relay) Test(ctx context.Context, destination, actor string) (string, error) {
	if r.groups[destination] == nil {
		return "", fmt.Errorf("%w: %s", ErrDestination, destination)
	}
	if actor == "" {
		return "", ErrWho
	}
	now := stored(r.opt.Now())
	m := store.Message{
		ID: r.opt.NewID(id.Message), Destination: destination, Type: TypeTest, State: store.MessagePending,
		CreatedAt: now, NextAt: now, Sequence: 1,
	}
	m.Lane, m.Cause = m.ID, m.ID+"|test"
	m.Body = encode(testBody{ID: m.ID, Type: TypeTest, Sequence: 1, CreatedAt: now, Data: testData{Destination: destination}})
	err := r.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		if err := tx.InsertMessages(ctx, []store.Message{m}); err != nil {
			return err
		}
		if err := tx.Enqueue(ctx, []store.Work{{Queue: store.QueueOutbox(destination), ID: m.ID, Lane: m.Lane}}); err != nil {
			return err
		}
		return r.audit(ctx, tx, subjectOf(destination), actionTested, actor, whyDetail{Message: m.ID})
	})
	if err != nil {
		return "", fmt.Errorf("testing destination %s: %w", destination, err)
	}
	return m.ID, nil
}

func (r *Relay) audit(ctx context.Context, tx store.Tx, subject, action, actor string, detail any) error {
	err := tx.AppendAudit(ctx, []store.AuditRow{{
		ID: r.opt.NewID(idAudit), Subject: subject, Action: action, Actor: actor, Detail: encode(detail), At: stored(r.opt.Now()),
	}})
	if err != nil {
		return fmt.Errorf("auditing %s: %w", action, err)
	}
	return nil
}

// encode writes one of our own documents.
func encode(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("outbox: impossible: %T does not encode: %v", v, err))
	}
	return b
}
