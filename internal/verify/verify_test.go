package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func tree(pairs ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		files[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return files
}

// expect compares problems with the wanted parts of them, one each.
func expect(t *testing.T, problems []string, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != len(want) {
		t.Fatalf("problems %q, want %d: %q", problems, len(want), want)
	}
	for i, part := range want {
		if !strings.Contains(problems[i], part) {
			t.Errorf("problem %q does not say %q", problems[i], part)
		}
	}
}

func TestPromises(t *testing.T) {
	const head = "| id | promise | boundary | test |\n|---|---|---|---|\n"
	row := func(id, test string) string { return "| " + id + " | words | commit | " + test + " |\n" }
	code := tree(
		"a/a_test.go", `package a

import "testing"

// TestDoc proves R1.10 only.
func TestDoc(t *testing.T) {}

func TestInside(t *testing.T) {
	// R1.1: here.
}

func TestR1_2Name(t *testing.T) {}

// R1.3 is here, above nothing.

func TestAfter(t *testing.T) {}

func helper(t *testing.T) { /* R1.1 */ }
`,
		"a/atest/suite.go", "package atest\n\nimport \"testing\"\n\n// Once shows R1.1.\nfunc Once(t *testing.T) {}\n",
		"a/real.go", "package a\n\n// TestUntrue R1.1\nfunc TestUntrue(x int) {}\n")
	for _, c := range []struct {
		name, table string
		strict      bool
		want        []string
	}{
		{"id in the doc comment", row("R1.10", "a/a_test.go#TestDoc"), true, nil},
		{"a longer id is another id", row("R1.1", "a/a_test.go#TestDoc"), false, []string{"does not carry R1.1"}},
		{"id inside, found in the folder", row("R1.1", "`a#TestInside`"), true, nil},
		{"id in the name", row("R1.2", "a#TestR1_2Name"), true, nil},
		{"a comment elsewhere", row("R1.3", "a#TestAfter"), false, []string{"does not carry R1.3"}},
		{"a conformance suite", row("R1.1", "a/atest#Once"), true, nil},
		{"several tests, one missing", row("R1.1", "a#TestInside, a#TestGone"), false, []string{"no test TestGone"}},
		{"not a test", row("R1.1", "a#helper"), false, []string{"no test helper"}},
		{"not in a test file", row("R1.1", "a/real.go#TestUntrue"), false, []string{"no test TestUntrue"}},
		{"no such path", row("R1.1", "b#TestX"), false, []string{"b does not exist"}},
		{"no name", row("R1.1", "a"), false, []string{"path#TestName"}},
		{"twice", row("R1.1", none) + row("R1.1", none), false, []string{"twice"}},
		{"without a test", row("R1.1", none), false, nil},
		{"without a test, strictly", row("R1.1", none), true, []string{"has no test"}},
		{"an empty cell", row("R1.1", ""), false, []string{"not of the form", "no rows"}},
		{"a cell too few", "| R1.1 | words | x |\n", false, []string{"not of the form", "no rows"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code[promisesPath] = &fstest.MapFile{Data: []byte(head + c.table)}
			problems, err := checkPromises(code, c.strict)
			expect(t, problems, err, c.want...)
		})
	}
}

func TestLinks(t *testing.T) {
	const other = "# Title\n\n## A `code` part, twice!\n## Twice\n## Twice\n<a id=\"own\"></a>\n```\n## Fenced\n```\n"
	for _, c := range []struct{ link, want string }{
		{"[x](other.md)", ""},
		{"[x](./other.md#title)", ""},
		{"[x](other.md#a-code-part-twice)", ""},
		{"[x](other.md#twice-1)", ""},
		{"[x](other.md#own)", ""},
		{"[x](../README.md)", ""},
		{"[x](../docs)", ""},
		{"[x](#here)", ""},
		{"[x](https://example.com/a.md)", ""},
		{"`[x](gone.md)`", ""},
		{"```\n[x](gone.md)\n```", ""},
		{"[x](gone.md)", "leads nowhere"},
		{"![x](gone.png)", "leads nowhere"},
		{"[x]: gone.md", "leads nowhere"},
		{"[x](gone.md \"title\")", "leads nowhere"},
		{"[x](other.md#gone)", "no such heading"},
		{"[x](other.md#fenced)", "no such heading"},
		{"[x](#gone)", "no such heading"},
		{"[x](../../etc/passwd)", "leaves the tree"},
		{"[x](/README.md)", "leaves the tree"},
	} {
		files := tree("README.md", "", "docs/other.md", other, "docs/page.md", "# Here\n\n"+c.link+"\n")
		problems, err := checkLinks(files)
		if c.want == "" {
			expect(t, problems, err)
		} else {
			expect(t, problems, err, c.want)
			if !strings.HasPrefix(problems[0], "docs/page.md:3: ") {
				t.Errorf("problem %q does not say where", problems[0])
			}
		}
	}
}

func TestRecords(t *testing.T) {
	const whole = "# 1 Title\n\n## Context\n\n## Decision\n\n## Alternatives\n\n## Consequences\n"
	index := "before\n" + indexBegin + "- [1 Title](0001-title.md)\n" + indexEnd + "after\n"
	problems, err := checkRecords(tree(indexPath, index, recordDir+"/0001-title.md", whole))
	expect(t, problems, err)

	problems, err = checkRecords(tree(indexPath, index, recordDir+"/0001-title.md", whole, recordDir+"/0001-z.md", whole))
	expect(t, problems, err, "number is that of", "index is not current")

	problems, err = checkRecords(tree(indexPath, index, recordDir+"/0001-title.md", strings.Replace(whole, "## Alternatives", "", 1)))
	expect(t, problems, err, `no section "Alternatives"`)

	problems, err = checkRecords(tree(indexPath, strings.Replace(index, "1 Title", "Stale", 1), recordDir+"/0001-title.md", whole))
	expect(t, problems, err, "index is not current")

	if _, err := checkRecords(tree(indexPath, "no marks\n", recordDir+"/0001-title.md", whole)); err == nil {
		t.Error("an index without marks passes")
	}
}

func TestDependencies(t *testing.T) {
	const mod = "module m\n\ngo 1.26\n\nrequire (\n\ta.example/x v1.0.0\n\ta.example/x/v2 v2.0.0\n\ta.example/tool v1.0.0\n)\n\ntool a.example/tool/cmd\n"
	const page = "| `a.example/x/v2` | why |\n| `a.example/tool` | why |\n"
	files := func(page string) fs.FS {
		return tree("go.mod", mod, dependenciesPath, page,
			"p/p.go", "package p\n\nimport (\n\t_ \"a.example/x/v2/sub\"\n\t_ \"m/q\"\n\t_ \"strings\"\n)\n",
			"nested/go.mod", "module n\n", "nested/a.go", "package n\n\nimport _ \"a.example/x\"\n", "nested/s/z.go", "package s\n\nimport _ \"a.example/x\"\n")
	}
	problems, err := checkDependencies(files(page))
	expect(t, problems, err)
	problems, err = checkDependencies(files("| `a.example/tool` | why |\n"))
	expect(t, problems, err, "p/p.go imports a.example/x/v2")
	problems, err = checkDependencies(files("| `a.example/x/v2` | why |\n"))
	expect(t, problems, err, "go.mod imports a.example/tool")
	problems, err = checkDependencies(files(page + "| `gone.example` | why |\n"))
	expect(t, problems, err, "gone.example, which go.mod does not require")
}

func TestGenerated(t *testing.T) {
	list := []generated{{"docs/a.md", "internal/gen/a"}, {"docs/b.md", "internal/gen/b"}}
	var ran []string
	run := func(_ context.Context, generator string) ([]byte, error) {
		ran = append(ran, generator)
		if generator == "internal/gen/b" {
			return nil, errors.New("broken")
		}
		return []byte("one\ntwo\n"), nil
	}
	check := func(pairs ...string) ([]string, error) {
		ran = nil
		return compareGenerated(t.Context(), tree(pairs...), list, run)
	}

	problems, err := check("internal/gen/a/main.go", "", "docs/a.md", "one\ntwo\n")
	expect(t, problems, err)
	if !slices.Equal(ran, []string{"internal/gen/a"}) {
		t.Errorf("ran %q", ran)
	}
	problems, err = check("internal/gen/a/main.go", "", "docs/a.md", "one\n2\n")
	expect(t, problems, err, `line 2 is "2", should be "two"`)
	problems, err = check("internal/gen/a/main.go", "")
	expect(t, problems, err, "docs/a.md is not what")
	problems, err = check("internal/gen/b/main.go", "", "docs/b.md", "")
	expect(t, problems, err, "broken")
	problems, err = check("docs/b.md", "")
	expect(t, problems, err, "has no generator")
	problems, err = check("internal/gen/c/main.go", "")
	expect(t, problems, err, "internal/gen/c is not registered")
}
