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

// tailPoll is how often tail looks for new events.
const tailPoll = time.Second

// tailCommand follows the events as they come.
func (a *app) tailCommand() *cobra.Command {
	var account string
	c := &cobra.Command{
		Use: "tail", Short: "Follow events as they come, one line each, until interrupted", Args: cobra.NoArgs,
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

func (a *app) tail(ctx context.Context, query url.Values) error {
	seen := map[string]bool{}
	first := true
	ticker := time.NewTicker(tailPoll)
	defer ticker.Stop()
	for {
		var fresh []jsontext.Value
		_, err := a.list(ctx, "/v1/events", query, listLimit, func(doc jsontext.Value) error {
			var e struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(doc, &e); err != nil {
				return fmt.Errorf("reading an event: %w", err)
			}
			if !seen[e.ID] {
				seen[e.ID] = true
				fresh = append(fresh, doc.Clone())
			}
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for i := len(fresh) - 1; i >= 0 && !first; i-- {
			if err := a.tailLine(fresh[i]); err != nil {
				return err
			}
		}
		first = false
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
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
		a.actCommand(actSpec{use: "revoke ID", short: "Make a token worthless at once", path: "/v1/tokens/%s/revoke", reason: true}),
	)
}
