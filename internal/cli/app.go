package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

// Streams are the standard streams of a run.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// app is one run of the command line.
type app struct {
	Streams
	getenv func(string) string
	// stop ends the hearing of signals, so that a second one ends the process.
	stop func()

	config    string
	server    string
	tokenFile string
	output    string
}

// Output formats.
const (
	outTable = "table"
	outJSON  = "json"
	outJSONL = "jsonl"
)

var formats = []string{outTable, outJSON, outJSONL}

// Main runs one command and returns its exit code. A first signal cancels ctx;
// stop makes the next one end the process at once.
func Main(ctx context.Context, stop func(), args []string, s Streams, getenv func(string) string) int {
	a := &app{Streams: s, getenv: getenv, stop: stop}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		if a.output == outTable {
			// A flag that is wrong may stand before the one that names the format.
			a.output = wanted(args)
		}
		a.report(err)
	}
	return exitCode(err)
}

// Root returns the command tree, for the documents that are made from it.
func Root() *cobra.Command {
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, getenv: func(string) string { return "" }}
	return a.root()
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "unavez",
		Short: "Payments take effect once: never twice, never lost, visibly unknown while unknown",
		Example: `  unavez demo --once                      see it work, nothing installed
  unavez serve --config unavez.yaml       run the server
  unavez payments list --order A-1001     look at an order's payments
  unavez events get evt_…                 look at one notification`,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if o := a.output; !slices.Contains(formats, o) {
				a.output = outTable
				return usage("-o is %q, not table, json or jsonl", o)
			}
			if err := cmd.ValidateRequiredFlags(); err != nil {
				return usage("%v; see %s --help", err, cmd.CommandPath())
			}
			return nil
		},
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage("%v; see %s --help", err, cmd.CommandPath()) })
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate(helpTemplate)
	flags := root.PersistentFlags()
	flags.StringVarP(&a.output, "output", "o", outTable, "`format` of standard output: table, json, jsonl")
	flags.StringVar(&a.config, "config", "", "configuration `file` (unavez.yaml)")
	flags.StringVar(&a.server, "server", "", "private API `URL` (UNAVEZ_SERVER, http://127.0.0.1:8081)")
	flags.StringVar(&a.tokenFile, "token-file", "", "`file` that holds the API token (UNAVEZ_TOKEN_FILE; UNAVEZ_TOKEN holds the token itself)")
	root.AddCommand(
		a.serveCommand(), a.demoCommand(), a.simulatorCommand(), a.simulateCommand(),
		a.paymentsCommand(), a.ordersCommand(), a.eventsCommand(), a.messagesCommand(), a.destinationsCommand(),
		a.exceptionsCommand(), a.auditCommand(), a.tokensCommand(), a.searchCommand(),
		a.migrateCommand(), a.doctorCommand(), a.configCommand(), a.providersCommand(), a.versionCommand(), a.healthcheckCommand(),
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes say", Long: exitHelp},
	)
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	strict(root)
	return root
}

// suggestDistance is how many letters off a word may be to be suggested.
const suggestDistance = 2

// strict makes a word that is no command of a noun, and a word too many, a
// usage error instead of help.
func strict(c *cobra.Command) {
	for _, sub := range c.Commands() {
		strict(sub)
	}
	if c.HasSubCommands() && c.RunE == nil && c.Run == nil {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			meant := ""
			cmd.SuggestionsMinimumDistance = suggestDistance
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				meant = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
			}
			return usage("unknown command %q for %q%s; see %s --help", args[0], cmd.CommandPath(), meant, cmd.CommandPath())
		}
	}
	if args := c.Args; args != nil {
		c.Args = func(cmd *cobra.Command, words []string) error {
			if err := args(cmd, words); err != nil {
				return usage("%v; see %s --help", err, cmd.CommandPath())
			}
			return nil
		}
	}
}

// helpCommand shows the help of a command; a topic that does not exist is an
// error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command", Example: "  unavez help payments create\n  unavez help exit-codes",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || cmd == nil || len(rest) > 0 {
				return usage("there is no help about %q; see unavez --help", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// The templates of help: examples first.
const (
	helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}{{end}}{{if or .Runnable .HasSubCommands}}

{{.UsageString}}{{end}}
`
	usageTemplate = `{{if .HasExample}}Examples:
{{.Example}}

{{end}}Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasHelpSubCommands}}

Topics:{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  unavez help {{.Name}}  {{.Short}}{{end}}{{end}}{{end}}`
)

// wanted is the format that the arguments ask for, as far as they can be read.
func wanted(args []string) string {
	for i, arg := range args {
		v := ""
		switch {
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			v = args[i+1]
		case strings.HasPrefix(arg, "--output="):
			v = strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o"):
			v = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		}
		if slices.Contains(formats, v) {
			return v
		}
	}
	return outTable
}

// noun groups the verbs of a noun.
func noun(name, short, example string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, Example: example}
	c.AddCommand(verbs...)
	return c
}

// report writes the error to standard error: one problem object with -o json.
func (a *app) report(err error) {
	if a.output == outTable || a.output == "" {
		fmt.Fprintln(a.Err, "unavez: "+strings.TrimPrefix(err.Error(), "unavez: "))
		return
	}
	var problem *problemError
	var config configError
	switch {
	case errors.As(err, &problem):
	case errors.As(err, &config):
		problem = config.problem()
	default:
		problem = &problemError{Code: exitWord(exitCode(err)), Title: err.Error()}
	}
	raw, e := json.Marshal(problem, json.Deterministic(true))
	if e != nil {
		raw = []byte(`{"code":"failed"}`)
	}
	fmt.Fprintln(a.Err, string(raw))
}

// hint suggests to a person what to do next.
func (a *app) hint(format string, args ...any) {
	if a.output != outTable {
		return
	}
	fmt.Fprintf(a.Err, "Next: "+format+"\n", args...)
}

// interactive says whether the stream is a terminal.
func interactive(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
