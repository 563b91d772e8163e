package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

func readPage(doc jsontext.Value) (p page, err error) {
	if err := json.Unmarshal(doc, &p); err != nil {
		return p, fmt.Errorf("reading a list: %w", err)
	}
	return p, nil
}

// broken turns the verdict of a verification into an exit code.
func broken(doc jsontext.Value) error {
	var v struct {
		Intact  bool   `json:"intact"`
		Problem string `json:"problem"`
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		return fmt.Errorf("reading the verdict: %w", err)
	}
	if !v.Intact {
		return &exitError{exitUnknown, errors.New("the chain is broken: " + v.Problem)}
	}
	return nil
}

const (
	// tailPoll is how often tail looks for new events.
	tailPoll = time.Second
	// tailOverlap is how many known events end a look: events of
	// several processes may become visible out of order.
	tailOverlap = 50
	// tailRowsMax bounds one look, and the events that are remembered.
	tailRowsMax = 10_000
)

// tailCommand follows the events as they come.
func (a *app) tailCommand() *cobra.Command {
	var account string
	c := &cobra.Command{
		Use: "tail", Short: "Follow events as they come, one line each, until interrupted", Args: cobra.NoArgs,
		Long:    "Follows new events, one line each, until interrupted. With -o json too each event is one line.",
		Example: "  unavez events tail --account stripe-es",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if account != "" {
				query.Set("account", account)
			}
			return a.tail(cmd.Context(), query)
		},
	}
	c.Flags().StringVar(&account, "account", "", "only events of this account")
	return c
}

// tail remembers what it has shown, not the last id.
type tail struct {
	seen  map[string]bool
	order []string
}

func (t *tail) remember(id string) {
	t.seen[id] = true
	t.order = append(t.order, id)
	if len(t.order) > tailRowsMax {
		delete(t.seen, t.order[0])
		t.order = t.order[1:]
	}
}

// errKnown ends a look.
var errKnown = errors.New("the rest is known")

func (a *app) tail(ctx context.Context, query url.Values) error {
	t := &tail{seen: map[string]bool{}}
	ticker := time.NewTicker(tailPoll)
	defer ticker.Stop()
	// The first look only learns what was there before.
	for rows, show := tailOverlap, false; ; rows, show = tailRowsMax, true {
		fresh, err := a.look(ctx, t, query, rows)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for i := len(fresh) - 1; i >= 0 && show; i-- {
			if err := a.tailLine(fresh[i]); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look returns the events that were not seen before, newest first.
func (a *app) look(ctx context.Context, t *tail, query url.Values, rows int) (fresh []jsontext.Value, err error) {
	known := 0
	_, err = a.list(ctx, "/v1/events", query, rows, func(doc jsontext.Value) error {
		id := idOf(doc)
		if t.seen[id] {
			if known++; known == tailOverlap {
				return errKnown
			}
			return nil
		}
		t.remember(id)
		fresh = append(fresh, doc.Clone())
		return nil
	})
	if errors.Is(err, errKnown) {
		err = nil
	}
	return fresh, err
}

func (a *app) tailLine(doc jsontext.Value) error {
	if a.output != outTable {
		return writeLine(a.Out, doc)
	}
	var e struct {
		ID         string    `json:"id"`
		ReceivedAt time.Time `json:"received_at"`
		Account    string    `json:"account"`
		Type       string    `json:"type"`
		State      string    `json:"state"`
		Order      string    `json:"order"`
	}
	if err := json.Unmarshal(doc, &e); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	_, err := fmt.Fprintln(a.Out, e.ReceivedAt.Format(time.RFC3339), e.ID, plain(e.Account), plain(e.Type), e.State, plain(e.Order))
	return err
}

func (a *app) tokensCommand() *cobra.Command {
	var name, role string
	create := &cobra.Command{
		Use: "create", Short: "Make an API token; it is shown once", Example: "  unavez tokens create --name shop --role operate", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, _, err := a.call(cmd.Context(), http.MethodPost, "/v1/tokens", nil, map[string]string{"name": name, "role": role})
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Err, "The token is shown this once; only its hash is kept.")
			return a.document(raw)
		},
	}
	create.Flags().StringVar(&name, "name", "", "who it is for; the actor in the audit (required)")
	create.Flags().StringVar(&role, "role", "", "read, operate, approve or admin (required)")
	_ = create.MarkFlagRequired("name")
	_ = create.MarkFlagRequired("role")
	return noun("tokens", "Tokens of the private API", "  unavez tokens create --name shop --role operate\n  unavez tokens revoke tok_…",
		a.listCommand(listSpec{
			path: "/v1/tokens", short: "List tokens, newest first",
			columns: []column{{"ID", "id"}, {"NAME", "name"}, {"ROLE", "role"}, {"CREATED", "created_at"}, {"LAST USED", "last_used_at"}, {"REVOKED", "revoked_at"}},
		}),
		create,
		a.actCommand(actSpec{
			use: "revoke ID", short: "Make a token worthless at once", path: "/v1/tokens/%s/revoke", reason: true,
			example: `tokens revoke tok_… --reason "the shop has a new one"`, done: "unavez audit list --subject tokens",
		}),
	)
}
