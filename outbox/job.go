package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/store"
)

// actionRetried is the audit action of a message that a person sent again. Its
// detail says how many attempts lay before.
const actionRetried = "message.retried"

type retriedDetail struct {
	Reason      string `json:"reason"`
	Attempts    int    `json:"attempts"`
	Destination string `json:"destination"`
	State       string `json:"state"`
}

// job is one claimed message.
type job struct {
	item store.ClaimedItem
	msg  store.Message
	// number is that of the next attempt in the message's history.
	number int
	// counted is the number of attempts that were begun since the message was
	// queued or retried by hand; lost of them left no result.
	counted, lost int
	// stray work belongs to no pending message.
	stray bool
}

// load reads the claimed messages and groups them by lane, in order.
func (g *group) load(ctx context.Context, items []store.ClaimedItem) ([][]*job, error) {
	var lanes [][]*job
	err := g.relay.store.View(ctx, func(r store.Reader) error {
		ids := make([]string, len(items))
		for i, item := range items {
			ids[i] = item.ID
		}
		rows, err := r.MessagesByID(ctx, ids)
		if err != nil {
			return err
		}
		messages := make(map[string]store.Message, len(rows))
		for _, m := range rows {
			messages[m.ID] = m
		}
		lanes = nil
		at := map[string]int{}
		for _, item := range items {
			j, err := newJob(ctx, r, item, messages)
			if err != nil {
				return err
			}
			i, ok := at[item.Lane]
			if !ok {
				i = len(lanes)
				at[item.Lane] = i
				lanes = append(lanes, nil)
			}
			lanes[i] = append(lanes[i], j)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading %d messages for %s: %w", len(items), g.dest.Name, err)
	}
	return lanes, nil
}

func newJob(ctx context.Context, r store.Reader, item store.ClaimedItem, messages map[string]store.Message) (*job, error) {
	m, ok := messages[item.ID]
	j := &job{item: item, msg: m, number: m.Attempts + 1, counted: item.Attempts, stray: !ok || m.State != store.MessagePending}
	if item.Attempts == 0 && m.Attempts == 0 || j.stray {
		return j, nil
	}
	history, err := r.Attempts(ctx, item.ID)
	if err != nil {
		return nil, err
	}
	before, err := attemptsBefore(ctx, r, item.ID)
	if err != nil {
		return nil, err
	}
	j.number = next(history)
	j.lost = max(item.Attempts-(len(history)-before), 0)
	return j, nil
}

// next numbers the attempts of a message through, whoever asked for them.
func next(history []store.Attempt) int {
	if len(history) == 0 {
		return 1
	}
	return slices.MaxFunc(history, func(a, b store.Attempt) int { return a.Number - b.Number }).Number + 1
}

// attemptsBefore returns how many recorded attempts lay before the message was
// last retried by hand, which started the count anew.
func attemptsBefore(ctx context.Context, r store.Reader, message string) (int, error) {
	rows, err := r.Audit(ctx, store.List{Where: map[string]string{"subject": message, "action": actionRetried}, Limit: 1})
	if errors.Is(err, store.ErrNotFound) || err == nil && len(rows) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var detail retriedDetail
	if err := json.Unmarshal(rows[0].Detail, &detail); err != nil {
		return 0, fmt.Errorf("reading the audit of message %s: %w", message, err)
	}
	return detail.Attempts, nil
}
