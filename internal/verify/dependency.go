package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
)

const dependenciesPath = recordDir + "/0005-dependencies.md"

// A row of the page's table begins with the module's path in backquotes.
var dependencyRow = regexp.MustCompile("(?m)^\\| `([^`]+)`")

// checkDependencies compares the modules that the main module's packages and
// tools import with the page that gives each its reason.
func checkDependencies(root fs.FS) (problems []string, err error) {
	text, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		return nil, err
	}
	mod, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, err
	}
	page, err := fs.ReadFile(root, dependenciesPath)
	if err != nil {
		return nil, err
	}
	reasoned := map[string]bool{}
	for _, match := range dependencyRow.FindAllStringSubmatch(string(page), -1) {
		reasoned[match[1]] = true
	}
	used, err := imports(root)
	if err != nil {
		return nil, err
	}
	for _, tool := range mod.Tool {
		used[tool.Path] = "go.mod"
	}
	required := map[string]bool{}
	for _, require := range mod.Require {
		required[require.Mod.Path] = true
	}
	direct := map[string]bool{}
	for _, imported := range slices.Sorted(maps.Keys(used)) {
		module := moduleOf(imported, required)
		if module == "" || direct[module] {
			continue
		}
		direct[module] = true
		if !reasoned[module] {
			problems = append(problems, fmt.Sprintf("%s imports %s, which has no row in %s", used[imported], module, dependenciesPath))
		}
	}
	for _, module := range slices.Sorted(maps.Keys(reasoned)) {
		if !required[module] {
			problems = append(problems, fmt.Sprintf("%s speaks of %s, which go.mod does not require", dependenciesPath, module))
		}
	}
	return problems, nil
}

// imports returns every import of the main module's files, with a file that has it.
func imports(root fs.FS) (map[string]string, error) {
	byFile := map[string][]string{}
	var nested []string
	err := walk(root, func(name string) error {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			nested = append(nested, path.Dir(name)+"/")
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", name, err)
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			byFile[name] = append(byFile[name], imported)
		}
		return nil
	})
	used := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		if slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(file, dir) }) {
			continue
		}
		for _, imported := range byFile[file] {
			used[imported] = file
		}
	}
	return used, err
}

// moduleOf returns the required module with the longest path that holds the
// package, or "" for the standard library and our own.
func moduleOf(imported string, required map[string]bool) string {
	for dir := imported; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if required[dir] {
			return dir
		}
	}
	return ""
}
