package cli

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/provider/all"
	"github.com/unavez/unavez/store"
)

func (a *app) migrateCommand() *cobra.Command {
	up := &cobra.Command{
		Use: "up", Short: "Bring the schema up; safe to run twice or from several processes", Args: cobra.NoArgs,
		Example: "  unavez migrate up --config unavez.yaml",
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
		Example: "  unavez migrate status",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.peekLedger(cmd.Context(), func(_ unavez.Config, s store.Store) error {
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
		Example: "  unavez migrate plan > schema.sql",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.peekLedger(cmd.Context(), func(_ unavez.Config, s store.Store) error {
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
		Example: "  unavez config check --config unavez.yaml",
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
		Example: "  unavez config show",
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
		Use: "list", Short: "List the providers this build knows", Args: cobra.NoArgs, Example: "  unavez providers list",
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
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  unavez version -o json",
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
