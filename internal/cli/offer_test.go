package cli_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/internal/cli"
)

// flagName finds the flags in their usage, one at the beginning of each line.
var flagName = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)

// parameters reads the names of the query's parameters of a list from the
// document of the API.
func parameters(t *testing.T, path string) (names []string) {
	t.Helper()
	raw, err := httpapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]struct {
			Get struct {
				Parameters []struct {
					Name string `json:"name"`
					In   string `json:"in"`
				} `json:"parameters"`
			} `json:"get"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	item, ok := document.Paths[path]
	if !ok {
		t.Fatalf("the API has no %s", path)
	}
	for _, p := range item.Get.Parameters {
		if p.In == "query" && p.Name != "starting_after" {
			names = append(names, strings.ReplaceAll(p.Name, "_", "-"))
		}
	}
	slices.Sort(names)
	return names
}

// R9.4: whatever the API can filter a list by, the command line can too, and
// nothing else.
func TestFiltersAreThoseOfTheAPI(t *testing.T) {
	tried := 0
	for _, noun := range cli.Root().Commands() {
		list, _, err := noun.Find([]string{"list"})
		if err != nil || list.Name() != "list" || noun.Name() == "providers" {
			continue // providers are not at the API
		}
		tried++
		var have []string
		for _, m := range flagName.FindAllStringSubmatch(list.LocalNonPersistentFlags().FlagUsages(), -1) {
			if m[1] != "help" {
				have = append(have, m[1])
			}
		}
		slices.Sort(have)
		if want := parameters(t, "/v1/"+noun.Name()); !slices.Equal(have, want) {
			t.Errorf("unavez %s list has the flags %v, the API has %v", noun.Name(), have, want)
		}
	}
	if tried < 8 {
		t.Errorf("only %d lists were found", tried)
	}
}

// Help begins with an example for every command that does something.
func TestEveryCommandHasAnExample(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		ours := c.Name() != "completion" && (c.Parent() == nil || c.Parent().Name() != "completion") && c.Name() != "exit-codes"
		if ours && !strings.Contains(c.Example, "unavez") {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Root())
}
