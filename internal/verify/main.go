package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
)

func main() {
	write := flag.Bool("write", false, "write the generated files instead of comparing them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *write, os.Getenv("STRICT") != ""); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, write, strict bool) error {
	if _, err := os.Stat("go.mod"); err != nil {
		return fmt.Errorf("not in the module's root: %w", err)
	}
	root := os.DirFS(".")
	if write {
		if err := writeIndex(root); err != nil {
			return err
		}
		return writeGenerated(ctx, root)
	}
	var problems []string
	for _, check := range []func() ([]string, error){
		func() ([]string, error) { return checkPromises(root, strict) },
		func() ([]string, error) { return checkLinks(root) },
		func() ([]string, error) { return checkRecords(root) },
		func() ([]string, error) { return checkDependencies(root) },
		func() ([]string, error) { return checkGenerated(ctx, root) },
	} {
		found, err := check()
		if err != nil {
			return err
		}
		problems = append(problems, found...)
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems", len(problems))
	}
	fmt.Println("documents and code agree")
	return nil
}

// walk calls visit for every file of the tree that is ours to check: hidden
// folders and fixtures are not. Nested modules are, as their tests prove too.
func walk(root fs.FS, visit func(name string) error) error {
	apart := []string{"testdata", "bin", "node_modules"}
	return fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (entry.Name()[0] == '.' || slices.Contains(apart, entry.Name())):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		return visit(name)
	})
}
