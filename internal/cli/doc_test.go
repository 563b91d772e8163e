package cli_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/unavez/unavez/internal/cli"
)

// parsesAsCommand holds the words after "unavez" against the command tree,
// without running anything.
func parsesAsCommand(words []string) error {
	root := cli.Root()
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	if help, _ := c.Flags().GetBool("help"); help {
		return nil
	}
	args := c.Flags().Args()
	if c.HasSubCommands() && len(args) > 0 {
		return fmt.Errorf("%q is no command of %s", args[0], c.CommandPath())
	}
	if c.HasSubCommands() {
		return nil
	}
	if err := c.ValidateArgs(args); err != nil {
		return err
	}
	return c.ValidateRequiredFlags()
}

// command is a command line in a document.
type command struct {
	where string
	words []string
}

var (
	// spoken is a command within a sentence.
	spoken = regexp.MustCompile("`unavez ([^`]+)`")
	// typed is a command in a block: at its beginning, after variables, or in $(…).
	typed = regexp.MustCompile(`(?:^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*|\$\()(?:go run \./cmd/)?unavez ?(.*)$`)
)

// commandsIn lists the commands of a document. Only whole ones are typed in
// blocks; within a sentence a noun may stand without its verb.
func commandsIn(path, text string) (list []command) {
	block := false
	for i, line := range strings.Split(text, "\n") {
		where := fmt.Sprintf("%s:%d", path, i+1)
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block = !block
			continue
		}
		if !block {
			for _, m := range spoken.FindAllStringSubmatch(line, -1) {
				list = append(list, command{where + " (spoken)", split(m[1])})
			}
			continue
		}
		if m := typed.FindStringSubmatch(line); m != nil {
			list = append(list, command{where, split(m[1])})
		}
	}
	return list
}

var word = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)

// split splits a line as a shell does, up to a comment or a pipe.
func split(line string) (words []string) {
	for _, w := range word.FindAllString(line, -1) {
		if w[0] == '#' || w == "|" || w == ">" || w == "&" || w == "2>" {
			break
		}
		if w != "[flags]" { // of a usage line
			words = append(words, strings.Trim(w, `"'`))
		}
	}
	return words
}

// Every command in the documents exists, with its flags and its arguments.
func TestDocumentsNameRealCommands(t *testing.T) {
	paths := []string{filepath.Join(module, "README.md"), filepath.Join(module, "CONTRIBUTING.md")}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(module, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	tried := map[string]int{}
	for _, path := range paths {
		for _, c := range commandsIn(path, read(t, path)) {
			tried[filepath.Base(path)]++
			err := parsesAsCommand(c.words)
			if err != nil && strings.Contains(c.where, "(spoken)") && (strings.Contains(err.Error(), "required flag") || strings.Contains(err.Error(), "arg(s)")) {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: unavez %s: %v", c.where, strings.Join(c.words, " "), err)
			}
		}
	}
	for name, least := range map[string]int{"README.md": 8, "quickstart.md": 12, "configuration.md": 5, "commands.md": 40} {
		if tried[name] < least {
			t.Errorf("%s: only %d commands were found", name, tried[name])
		}
	}
}

// What the documents must not pass for is refused.
func TestDocumentCheckRefuses(t *testing.T) {
	for _, line := range []string{"frob", "payments frob", "payments list --frob", "payments get", "audit verify extra", "payments create --order", "payments list extra"} {
		if parsesAsCommand(split(line)) == nil {
			t.Errorf("unavez %s passes", line)
		}
	}
}

// Examples of help are true too, every command has a line about itself, and
// commands with arguments that are not obvious have an example.
func TestHelpExamples(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: the short help is %q", c.CommandPath(), c.Short)
		}
		for line := range strings.Lines(c.Example) {
			line, isOurs := strings.CutPrefix(strings.TrimSpace(regexp.MustCompile(`^\s*([A-Z_]+=\S+ )*`).ReplaceAllString(line, "")), "unavez ")
			line = regexp.MustCompile(`\s{3,}.*`).ReplaceAllString(line, "") // a remark in the second column
			if isOurs {
				if err := parsesAsCommand(split(line)); err != nil {
					t.Errorf("%s: example %q: %v", c.CommandPath(), line, err)
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Root())
}

// Help shows examples before anything else, and exits with 0.
func TestHelp(t *testing.T) {
	p := newPlace(t, "")
	for _, args := range [][]string{{}, {"--help"}, {"payments"}, {"payments", "create", "--help"}, {"help", "payments", "create"}, {"help", "serve"}} {
		r := p.run(args...).exits(0).prints("Examples:", "Usage:")
		if strings.Index(r.out, "Examples:") > strings.Index(r.out, "Usage:") {
			t.Errorf("%s: the examples stand behind the usage", r.command)
		}
	}
	p.run("help", "exit-codes").exits(0).prints("7  result unknown")
	p.run("exit-codes").exits(0).prints("3  not found")
}

// Completion scripts for four shells, and what they ask for.
func TestCompletion(t *testing.T) {
	p := newPlace(t, "")
	for shell, word := range map[string]string{"bash": "complete -o", "zsh": "#compdef unavez", "fish": "complete -c unavez", "powershell": "Register-ArgumentCompleter"} {
		p.run("completion", shell).exits(0).prints(word)
	}
	p.run("__complete", "payments", "").exits(0).prints("create", "timeline")
	p.run("__complete", "payments", "list", "--st").exits(0).prints("--state")
}
