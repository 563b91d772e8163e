// Command commands prints the reference of the command line as Markdown.
//
// It stands outside the flow: `make generate` writes its output to
// docs/commands.md, and `make verify` fails when the two differ. Invariant: the
// page is made from the command tree that the program runs. A crash here costs
// nothing.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unavez/unavez/internal/cli"
)

func main() {
	if _, err := os.Stdout.Write(render(cli.Root())); err != nil {
		fmt.Fprintln(os.Stderr, "commands:", err)
		os.Exit(1)
	}
}

const opening = `<!-- written by make generate from the command tree -->
# Commands

Data goes to standard output, talk to standard error. With ` + "`-o json`" + ` a command prints one document, with ` + "`-o jsonl`" + ` one line per row; an error is then one problem object on standard error. There are no colors. A redrive or retry without ` + "`--yes`" + ` only says what it would do.

Commands that look at the ledger call the private API of a running server: ` + "`--server`" + ` or ` + "`UNAVEZ_SERVER`" + ` name it. The token comes from ` + "`--token-file`" + `, ` + "`UNAVEZ_TOKEN`" + ` or ` + "`UNAVEZ_TOKEN_FILE`" + `, otherwise from the file ` + "`unavez-admin-token`" + ` in the working directory. It is never the value of a flag, which other users of the machine could see.

`

func render(root *cobra.Command) []byte {
	var b bytes.Buffer
	b.WriteString(opening)
	var all []*cobra.Command
	collect(root, &all)
	b.WriteString("| command | what it does |\n|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), cell(c.Short))
	}
	fmt.Fprintf(&b, "\n## Flags of every command\n\n")
	flags(&b, root.PersistentFlags().FlagUsages())
	for _, c := range all {
		section(&b, c)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// collect lists the commands that do something, in the order of their names.
func collect(c *cobra.Command, all *[]*cobra.Command) {
	for _, sub := range c.Commands() {
		switch {
		case sub.Hidden:
		case sub.HasSubCommands():
			collect(sub, all)
		default:
			*all = append(*all, sub)
		}
	}
}

func section(b *bytes.Buffer, c *cobra.Command) {
	fmt.Fprintf(b, "## %s\n\n%s.\n\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."))
	if c.Long != "" && c.Parent().Name() != "completion" {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.TrimSpace(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(b, "```sh\n%s\n```\n\n", unindent(c.Example))
	}
	if c.Runnable() {
		fmt.Fprintf(b, "Usage: `%s`\n\n", c.UseLine())
	}
	flags(b, c.NonInheritedFlags().FlagUsages())
}

// flags prints the flags as help does, without the one for help.
func flags(b *bytes.Buffer, usages string) {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(usages, "\n"), "\n") {
		if line != "" && !strings.HasPrefix(strings.TrimSpace(line), "-h, --help") {
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.Join(lines, "\n"))
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func unindent(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}
