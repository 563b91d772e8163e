package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/internal/e2e/campaign"
)

// recordPath is the page that keeps results.
const recordPath = "docs/proof.md"

// recordMark begins the part of the page that is written here.
const recordMark = "## Results\n"

// record writes the results of all campaigns into the page. What stands above
// the results is left as it is.
func record() error {
	page, err := os.ReadFile(recordPath)
	if err != nil {
		return err
	}
	head, _, found := strings.Cut(string(page), recordMark)
	if !found {
		return fmt.Errorf("%s has no line %q", recordPath, strings.TrimSpace(recordMark))
	}
	var b strings.Builder
	b.WriteString(head + recordMark)
	for _, c := range campaign.All() {
		raw, err := os.ReadFile(filepath.Join(dir, c.Name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(&b, "\n### %s\n\nNot run yet.\n", c.Name)
			continue
		}
		if err != nil {
			return err
		}
		var p progress
		if err := json.Unmarshal(raw, &p); err != nil {
			return fmt.Errorf("reading the results of %s: %w", c.Name, err)
		}
		section(&b, c, p)
	}
	return os.WriteFile(recordPath, []byte(b.String()), 0o644)
}

func section(b *strings.Builder, c campaign.Campaign, p progress) {
	units := c.Units(true)
	if p.Revision == "" {
		p.Revision = "not noted"
	}
	fmt.Fprintf(b, "\n### %s\n\nSeed %d, %s, revision %s, %d of %d units.\n\n", c.Name, p.Seed, p.Begun.Format(time.DateOnly), p.Revision, len(p.Done), len(units))
	b.WriteString("| unit | took | counted |\n|---|---|---|\n")
	for _, u := range units {
		if done, ok := p.Done[u.Name]; ok {
			fmt.Fprintf(b, "| %s | %s | %s |\n", u.Name, done.Took, done.Said)
		} else {
			fmt.Fprintf(b, "| %s | – | not run to its end |\n", u.Name)
		}
	}
}

// revision names what is proven, as far as git knows it.
func revision(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty=+").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
