package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// healthcheckCommand is for container health checks: no token, no curl.
func (a *app) healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "healthcheck", Short: "Ask a running server whether it is ready", Args: cobra.NoArgs,
		Example: "  unavez healthcheck --server http://127.0.0.1:8081",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ready, text := ready(cmd.Context(), a.serverURL())
			if !ready {
				return errors.New(text)
			}
			if a.output != outTable {
				return a.writeJSON(map[string]any{"ready": true})
			}
			_, err := fmt.Fprintln(a.Out, "ready")
			return err
		},
	}
}

const healthWithin = 5 * time.Second

func ready(ctx context.Context, server string) (bool, string) {
	ctx, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, fmt.Sprintf("no answer from %s: %v", server, bare(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Sprintf("%s answers %d to /readyz", server, resp.StatusCode)
	}
	return true, server + " is ready"
}

// secretBytesAdvised is the length from which doctor calls a secret long enough.
const secretBytesAdvised = 24

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Find what a newcomer gets wrong, and name the command that helps", Args: cobra.NoArgs,
		Example: "  unavez doctor --config unavez.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := a.examine(cmd.Context())
			bad := 0
			out := a.rows(column{"OK", "ok"}, column{"CHECK", "name"}, column{"FINDING", "message"})
			for _, f := range findings {
				if !f.OK {
					bad++
				}
				raw, err := json.Marshal(f, json.Deterministic(true))
				if err != nil {
					return fmt.Errorf("encoding a finding: %w", err)
				}
				if err := out.add(raw); err != nil {
					return err
				}
			}
			if err := out.end(false); err != nil {
				return err
			}
			if bad > 0 {
				return errors.New(attention(bad))
			}
			return nil
		},
	}
}

func attention(n int) string {
	if n == 1 {
		return "1 thing needs attention"
	}
	return fmt.Sprintf("%d things need attention", n)
}

func (a *app) examine(ctx context.Context) []store.Finding {
	c, err := a.load()
	var wrong configError
	if errors.As(err, &wrong) {
		var findings []store.Finding
		for _, problem := range wrong {
			findings = append(findings, store.Finding{Name: "configuration", Message: problem})
		}
		return findings
	}
	if err != nil {
		return []store.Finding{{Name: "configuration", Message: err.Error() + " → copy unavez.example.yaml"}}
	}
	findings := []store.Finding{{Name: "configuration", OK: true, Message: size(c)}}
	if len(c.Accounts) == 0 {
		findings = append(findings, store.Finding{Name: "accounts", Message: "none is configured; nothing can be received"})
	}
	findings = append(findings, examineSecrets(c)...)
	findings = append(findings, a.examineLedger(ctx, c)...)
	for _, d := range c.Destinations {
		findings = append(findings, examineDestination(ctx, d))
	}
	server := a.serverURL()
	if !a.serverNamed() {
		server = "http://" + dialable(c.Listen.Private)
	}
	up, text := ready(ctx, server)
	if !up {
		return append(findings, store.Finding{Name: "server", Message: text + " → unavez serve"})
	}
	findings = append(findings, store.Finding{Name: "server", OK: true, Message: text})
	return append(findings, a.at(server).examineWork(ctx)...)
}

// at is this run with another server.
func (a *app) at(server string) *app {
	b := *a
	b.server = server
	return &b
}

// examineWork looks for what the server has stopped at.
func (a *app) examineWork(ctx context.Context) []store.Finding {
	var findings []store.Finding
	for _, q := range []struct {
		noun, state, one, many string
		harmless               bool
	}{
		{"events", "dead", "event is dead", "events are dead", false},
		{"events", "waiting", "event waits until its payment is registered", "events wait until their payment is registered", true},
		{"messages", "dead", "message was given up", "messages were given up", false},
		{"messages", "ambiguous", "message may have arrived, and may not", "messages may have arrived, and may not", false},
		{"exceptions", "open", "exception needs a person", "exceptions need a person", false},
	} {
		const rowsMax = 100 // of one page; more is told as that many or more
		raw, err := a.get(ctx, "/v1/"+q.noun, url.Values{"state": {q.state}, "limit": {strconv.Itoa(rowsMax)}})
		if err != nil {
			return append(findings, store.Finding{Name: "api", Message: err.Error()})
		}
		p, err := readPage(raw)
		if err != nil {
			return append(findings, store.Finding{Name: "api", Message: err.Error()})
		}
		n := len(p.Data)
		f := store.Finding{Name: q.noun, OK: q.harmless || n == 0, Message: "none " + q.state}
		if n > 0 {
			count, what := strconv.Itoa(n), q.many
			if p.HasMore {
				count += " or more"
			} else if n == 1 {
				what = q.one
			}
			f.Message = fmt.Sprintf("%s %s → unavez %s list --state %s", count, what, q.noun, q.state)
		}
		findings = append(findings, f)
	}
	return findings
}

func examineSecrets(c unavez.Config) []store.Finding {
	var short []string
	look := func(where string, secrets ...provider.Secret) {
		for _, s := range secrets {
			if s != "" && len(s) < secretBytesAdvised {
				short = append(short, where)
			}
		}
	}
	for _, t := range c.Tokens {
		look("token "+t.Name, t.Secret)
	}
	for _, d := range c.Destinations {
		look("destination "+d.Name, append(d.Secrets, d.Secret)...)
	}
	if len(short) > 0 {
		return []store.Finding{{Name: "secrets", Message: fmt.Sprintf("shorter than %d characters: %s → openssl rand -base64 32", secretBytesAdvised, strings.Join(short, ", "))}}
	}
	return []store.Finding{{Name: "secrets", OK: true, Message: "long enough"}}
}

func (a *app) examineLedger(ctx context.Context, c unavez.Config) []store.Finding {
	if missing(c.Database) {
		return []store.Finding{{Name: "database", Message: c.Database + " does not exist yet → unavez migrate up, or unavez serve"}}
	}
	s, err := unavez.Open(ctx, c.Database, nil)
	if err != nil {
		return []store.Finding{{Name: "database", Message: err.Error()}}
	}
	defer func() { _ = s.Close() }()
	findings, err := s.Check(ctx)
	switch {
	case errors.Is(err, store.ErrSchema):
		findings = append(findings, store.Finding{Name: "schema", Message: err.Error() + " → unavez migrate up"})
	case err != nil:
		findings = append(findings, store.Finding{Name: "database", Message: err.Error()})
	}
	now, err := s.Now(ctx)
	if err == nil {
		offset := time.Since(now).Abs()
		findings = append(findings, store.Finding{
			Name: "clock", OK: offset < clockOffsetMax, Message: fmt.Sprintf("this machine and the ledger differ by %s", offset.Round(time.Millisecond)),
		})
	}
	return findings
}

// clockOffsetMax is well inside the tolerance of any signature.
const clockOffsetMax = 30 * time.Second

func examineDestination(ctx context.Context, d unavez.Destination) store.Finding {
	f := store.Finding{Name: "destination " + d.Name}
	u, err := url.Parse(d.URL)
	if err != nil {
		f.Message = "its URL cannot be read"
		return f
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	conn, err := (&net.Dialer{Timeout: healthWithin}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		f.Message = "does not accept connections: " + err.Error()
		return f
	}
	_ = conn.Close()
	f.OK, f.Message = true, "accepts connections → unavez destinations test "+d.Name
	return f
}
