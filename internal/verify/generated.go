package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
)

// generated is a file that a program of this module prints.
type generated struct {
	file      string
	generator string // the program's folder
}

// registered lists every generated file; add a line for a new one. A generator
// that is not in the tree has no file to keep current.
var registered = []generated{
	{"docs/states.md", "internal/gen/states"},
	{"docs/openapi.json", "internal/gen/openapi"},
	{"docs/commands.md", "internal/gen/commands"},
}

// runner runs a generator and returns what it prints.
type runner func(ctx context.Context, generator string) ([]byte, error)

func goRun(ctx context.Context, generator string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "run", "./"+generator)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

func checkGenerated(ctx context.Context, root fs.FS) ([]string, error) {
	return compareGenerated(ctx, root, registered, goRun)
}

func compareGenerated(ctx context.Context, root fs.FS, list []generated, run runner) (problems []string, err error) {
	programs, err := generators(root)
	if err != nil {
		return nil, err
	}
	for _, item := range list {
		if !programs[item.generator] {
			if _, err := fs.Stat(root, item.file); err == nil {
				problems = append(problems, fmt.Sprintf("%s is registered as generated and has no generator %s", item.file, item.generator))
			}
			continue
		}
		delete(programs, item.generator)
		want, err := run(ctx, item.generator)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", item.generator, err))
			continue
		}
		have, err := fs.ReadFile(root, item.file)
		if err != nil || !bytes.Equal(have, want) {
			problems = append(problems, fmt.Sprintf("%s is not what %s prints, run make generate%s", item.file, item.generator, difference(have, want)))
		}
	}
	for program := range programs {
		problems = append(problems, fmt.Sprintf("%s is not registered in internal/verify/generated.go", program))
	}
	return problems, nil
}

// generators returns the folders below internal/gen that hold Go files.
func generators(root fs.FS) (map[string]bool, error) {
	found := map[string]bool{}
	files, err := fs.Glob(root, "internal/gen/*/*.go")
	for _, file := range files {
		found[path.Dir(file)] = true
	}
	return found, err
}

// difference names the first line that is not the same.
func difference(have, want []byte) string {
	a, b := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(a), len(b)) {
		var x, y []byte
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if !bytes.Equal(x, y) {
			return fmt.Sprintf(": line %d is %q, should be %q", i+1, x, y)
		}
	}
	return ""
}

func writeGenerated(ctx context.Context, root fs.FS) error {
	programs, err := generators(root)
	if err != nil {
		return err
	}
	for _, item := range registered {
		if !programs[item.generator] {
			continue
		}
		text, err := goRun(ctx, item.generator)
		if err != nil {
			return fmt.Errorf("%s: %w", item.generator, err)
		}
		if err := os.WriteFile(item.file, text, 0o644); err != nil {
			return err
		}
		fmt.Println(item.file)
	}
	return nil
}
