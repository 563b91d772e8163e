package cli

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// listSpec is a list command: its path, the columns of its table, and the
// filters that are flags.
type listSpec struct {
	path    string
	short   string
	example string
	columns []column
	filters []string
	// next suggests a command for the first row, %s being its id.
	next string
}

func (s listSpec) name() string { return strings.TrimPrefix(s.path, "/v1/") }

const listLimit = 25

// listCommand makes the list verb of a noun.
func (a *app) listCommand(s listSpec) *cobra.Command {
	var limit int
	values := make([]string, len(s.filters))
	c := &cobra.Command{
		Use: "list", Short: s.short, Example: strings.TrimRight("  unavez "+s.name()+" list "+s.example, " "), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage("--limit is negative")
			}
			query := url.Values{}
			for i, f := range s.filters {
				if values[i] != "" {
					query.Set(f, values[i])
				}
			}
			out := a.rows(s.columns...)
			more, err := a.list(cmd.Context(), s.path, query, limit, out.add)
			if err != nil {
				return err
			}
			if err := out.end(more); err != nil {
				return err
			}
			if out.count > 0 && s.next != "" {
				a.hint(s.next, plain(out.first))
			}
			return nil
		},
	}
	c.Flags().IntVar(&limit, "limit", listLimit, "rows at most; 0 is all")
	for i, f := range s.filters {
		c.Flags().StringVar(&values[i], strings.ReplaceAll(f, "_", "-"), "", "only rows with this "+strings.ReplaceAll(f, "_", " "))
	}
	return c
}

// getCommand makes a verb that reads one document by its id.
func (a *app) getCommand(verb, short, path, example string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short, Example: "  unavez " + example, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := a.get(cmd.Context(), fmt.Sprintf(path, url.PathEscape(args[0])), nil)
			if err != nil {
				return err
			}
			return a.document(doc)
		},
	}
}

// actSpec is a write by a person: it needs a reason, and does nothing without
// --yes where it repeats work.
type actSpec struct {
	use, short, example string
	path                string
	// dry says what would happen, for verbs that need --yes; "" needs none.
	dry string
	// reason says that a reason is required.
	reason bool
	done   string
}

func (a *app) actCommand(s actSpec) *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use: s.use, Short: s.short, Example: "  unavez " + s.example, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.reason && strings.TrimSpace(reason) == "" {
				return usage("--reason is required: it stands in the audit beside your name")
			}
			if s.dry != "" && !yes {
				return a.dryRun(fmt.Sprintf(s.dry, args[0]))
			}
			var body any
			if s.reason {
				body = map[string]string{"reason": reason}
			}
			raw, _, err := a.call(cmd.Context(), "POST", fmt.Sprintf(s.path, url.PathEscape(args[0])), nil, body)
			if err != nil {
				return err
			}
			if len(raw) > 0 {
				if err := a.document(raw); err != nil {
					return err
				}
			}
			if s.done != "" {
				a.hint(s.done, args[0])
			}
			return nil
		},
	}
	if s.reason {
		c.Flags().StringVar(&reason, "reason", "", "why; recorded in the audit")
	}
	if s.dry != "" {
		c.Flags().BoolVar(&yes, "yes", false, "really do it")
	}
	return c
}

// dryRun says what would be done; to a script as an object.
func (a *app) dryRun(what string) error {
	if a.output != outTable {
		return a.writeJSON(map[string]any{"dry_run": true, "would": what})
	}
	_, err := fmt.Fprintf(a.Err, "Dry run: %s. Nothing was done; add --yes to do it.\n", what)
	return err
}
