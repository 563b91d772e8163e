package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/all"
	"github.com/unavez/unavez/store"
)

func (a *app) migrateCommand() *cobra.Command {
	up := &cobra.Command{
		Use: "up", Short: "Bring the schema up; safe to run twice or from several processes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLedger(cmd.Context(), func(_ unavez.Config, s store.Store) error {
				done, err := s.MigrateUp(cmd.Context())
				if err != nil {
					return err
				}
				if err := a.migrations(done); err != nil {
					return err
				}
				if len(done) == 0 && a.output == outTable {
					fmt.Fprintln(a.Err, "The schema was current already.")
				}
				a.hint("unavez migrate status")
				return nil
			})
		},
	}
	status := &cobra.Command{
		Use: "status", Short: "Show which migrations have been applied", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLedger(cmd.Context(), func(_ unavez.Config, s store.Store) error {
				list, err := s.Migrations(cmd.Context())
				if err != nil {
					return err
				}
				for i := range list {
					list[i].SQL = "" // plan prints it
				}
				return a.migrations(list)
			})
		},
	}
	plan := &cobra.Command{
		Use: "plan", Short: "Print the SQL that up would run, and run nothing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLedger(cmd.Context(), func(_ unavez.Config, s store.Store) error {
				list, err := s.Migrations(cmd.Context())
				if err != nil {
					return err
				}
				list = slices.DeleteFunc(list, func(m store.Migration) bool { return m.Applied })
				if a.output != outTable {
					return a.migrations(list)
				}
				for _, m := range list {
					fmt.Fprintf(a.Out, "-- %d %s\n%s\n", m.Version, m.Name, m.SQL)
				}
				if len(list) == 0 {
					fmt.Fprintln(a.Err, "The schema is current; up would do nothing.")
				} else {
					a.hint("unavez migrate up")
				}
				return nil
			})
		},
	}
	return noun("migrate", "The schema of the ledger", "  unavez migrate plan\n  unavez migrate up", up, status, plan)
}

func (a *app) migrations(list []store.Migration) error {
	out := a.rows(column{"VERSION", "version"}, column{"NAME", "name"}, column{"APPLIED", "applied"}, column{"AT", "applied_at"})
	for _, m := range list {
		raw, err := json.Marshal(m, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("encoding a migration: %w", err)
		}
		if err := out.add(raw); err != nil {
			return err
		}
	}
	return out.end(false)
}

func (a *app) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use: "check", Short: "Check the configuration and name every problem at once", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			if a.output != outTable {
				return a.writeJSON(map[string]any{"ok": true, "accounts": len(c.Accounts), "destinations": len(c.Destinations)})
			}
			if _, err = fmt.Fprintln(a.Out, "ok:", size(c)); err != nil {
				return err
			}
			a.hint("unavez doctor")
			return nil
		},
	}
	show := &cobra.Command{
		Use: "show", Short: "Print the configuration as loaded, secrets masked", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			mask(&c)
			text, err := yaml.Marshal(c)
			if err != nil {
				return fmt.Errorf("writing the configuration: %w", err)
			}
			if a.output != outTable {
				var tree map[string]any
				if err := yaml.Unmarshal(text, &tree); err != nil {
					return fmt.Errorf("writing the configuration: %w", err)
				}
				return a.writeJSON(tree)
			}
			_, err = a.Out.Write(text)
			return err
		},
	}
	return noun("config", "The configuration", "  unavez config check --config unavez.yaml", check, show)
}

func size(c unavez.Config) string {
	return plural(len(c.Accounts), "account") + ", " + plural(len(c.Destinations), "destination")
}

const masked = "[secret]"

func mask(c *unavez.Config) {
	for i := range c.Tokens {
		c.Tokens[i].Secret = masked
	}
	for i := range c.Accounts {
		for j := range c.Accounts[i].Secrets {
			c.Accounts[i].Secrets[j] = masked
		}
		if c.Accounts[i].APIKey != "" {
			c.Accounts[i].APIKey = masked
		}
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		if d.Secret != "" {
			d.Secret = masked
		}
		for j := range d.Secrets {
			d.Secrets[j] = masked
		}
		for name := range d.Headers {
			d.Headers[name] = masked
		}
	}
	if c.Audit.SealKey != "" {
		c.Audit.SealKey = masked
	}
	c.Database = maskURL(c.Database)
}

// maskURL takes the password out of a database's URL, wherever it stands.
func maskURL(database string) string {
	if !strings.Contains(database, "://") {
		return database
	}
	u, err := url.Parse(database)
	if err != nil {
		return masked
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(name, "password") {
			query.Set(name, masked)
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}

func (a *app) providersCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List the providers this build knows", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			out := a.rows(column{"PROVIDER", "provider"}, column{"TITLE", "title"})
			adapters := all.Adapters()
			names := make([]string, 0, len(adapters))
			for name := range adapters {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				raw, err := json.Marshal(map[string]string{"provider": name, "title": adapters[name].Contract().Title}, json.Deterministic(true))
				if err != nil {
					return fmt.Errorf("encoding a provider: %w", err)
				}
				if err := out.add(raw); err != nil {
					return err
				}
			}
			return out.end(false)
		},
	}
	contract := &cobra.Command{
		Use: "contract NAME", Short: "Print a provider's delivery contract with its sources", Args: cobra.ExactArgs(1),
		Example: "  unavez providers contract stripe",
		RunE: func(_ *cobra.Command, args []string) error {
			adapter := all.Adapters()[args[0]]
			if adapter == nil {
				return &exitError{exitNotFound, fmt.Errorf("provider %q is not known; see unavez providers list", args[0])}
			}
			return a.writeJSON(adapter.Contract())
		},
	}
	return noun("providers", "Providers and their contracts as data", "  unavez providers list\n  unavez providers contract stripe", list, contract)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if a.output != outTable {
				return a.writeJSON(v)
			}
			_, err := fmt.Fprintln(a.Out, strings.Join(slices.DeleteFunc([]string{"unavez", v.Version, v.Revision, v.Go}, func(s string) bool { return s == "" }), " "))
			return err
		},
	}
}

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
		text += " → unavez serve"
	}
	return append(findings, store.Finding{Name: "server", OK: up, Message: text})
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
