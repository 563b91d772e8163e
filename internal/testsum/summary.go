package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// outputBytesMax bounds what is kept of one test's output; the rest is cut in
// the middle, where a failure's cause seldom stands.
const outputBytesMax = 1 << 20

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64 // seconds
	Output      string
	ImportPath  string // of build output
	FailedBuild string
}

type key struct{ pkg, test string }

// summary holds what is still running; a finished test leaves only its count.
type summary struct {
	out     io.Writer
	output  map[key]*strings.Builder
	running map[key]bool
	broken  map[key]bool // a test, or a package, below which something failed
	builds  map[string]*strings.Builder
	passed  map[string]int
	failed  map[string]int
	open    map[string]bool // packages that have not ended
	parents map[key]bool    // tests that had subtests
}

func newSummary(out io.Writer) *summary {
	return &summary{
		out: out, output: map[key]*strings.Builder{}, running: map[key]bool{}, broken: map[key]bool{},
		builds: map[string]*strings.Builder{}, passed: map[string]int{}, failed: map[string]int{},
		open: map[string]bool{}, parents: map[key]bool{},
	}
}

// read takes events until the stream ends. A line that is no event is printed
// as it is: the go command itself speaks that way when it cannot start.
func (s *summary) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var ev event
			if jsonErr := json.Unmarshal([]byte(line), &ev); jsonErr != nil || ev.Action == "" {
				fmt.Fprint(s.out, line)
			} else {
				s.take(ev)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading events: %w", err)
		}
	}
}

func (s *summary) take(ev event) {
	k := key{ev.Package, ev.Test}
	switch ev.Action {
	case "build-output":
		keep(s.builds, ev.ImportPath, ev.Output)
		return
	case "build-fail":
		return
	case "output":
		keep(s.output, k, ev.Output)
		return
	case "start":
		s.open[ev.Package] = true
		return
	case "run":
		s.running[k] = true
		if cut := strings.LastIndexByte(ev.Test, '/'); cut >= 0 {
			s.parents[key{ev.Package, ev.Test[:cut]}] = true
		}
		return
	case "pass", "fail", "skip":
		if ev.Test == "" {
			s.endPackage(ev)
		} else {
			s.endTest(k, ev.Action)
		}
	}
}

func (s *summary) endTest(k key, action string) {
	delete(s.running, k)
	leaf := !s.parents[k]
	delete(s.parents, k)
	switch {
	case action == "pass" && leaf:
		s.passed[k.pkg]++
	case action == "skip":
		s.fail(k, "SKIPPED, which counts as failed")
	case action == "fail" && !s.broken[k]:
		s.fail(k, "FAIL")
	case action == "fail":
		s.print(k) // its subtests are counted, its own words are still wanted
	}
	delete(s.output, k)
	delete(s.broken, k)
}

// fail counts and shows a failure and marks everything above it as broken.
func (s *summary) fail(k key, word string) {
	s.failed[k.pkg]++
	fmt.Fprintf(s.out, "--- %s: %s %s\n", word, k.pkg, k.test)
	s.print(k)
	for test := k.test; test != ""; {
		test = test[:max(0, strings.LastIndexByte(test, '/'))]
		s.broken[key{k.pkg, test}] = true
	}
}

func (s *summary) print(k key) {
	if text := s.output[k]; text != nil {
		fmt.Fprintln(s.out, strings.TrimRight(text.String(), "\n"))
	}
	delete(s.output, k)
}

// endPackage shows a package's line. A package that fails while none of its
// tests did (it does not build, it panics, its TestMain gives up) is a failure
// of its own; tests that never ended are failures too.
func (s *summary) endPackage(ev event) {
	delete(s.open, ev.Package)
	s.failRunning(ev.Package)
	whole := key{ev.Package, ""}
	if ev.Action == "fail" && !s.broken[whole] {
		s.failed[ev.Package]++
		fmt.Fprintf(s.out, "--- FAIL: %s\n", ev.Package)
		if build := s.builds[ev.FailedBuild]; build != nil {
			fmt.Fprint(s.out, build.String())
		}
		s.print(whole)
	}
	passed, failed := s.passed[ev.Package], s.failed[ev.Package]
	switch {
	case failed > 0:
		fmt.Fprintf(s.out, "FAIL  %-50s %5d passed %3d failed  %6.1fs\n", ev.Package, passed, failed, ev.Elapsed)
	case passed > 0:
		fmt.Fprintf(s.out, "ok    %-50s %5d passed  %6.1fs\n", ev.Package, passed, ev.Elapsed)
	}
	delete(s.output, whole)
}

// failRunning counts the deepest tests of a package that began and never ended.
func (s *summary) failRunning(pkg string) {
	var left []key
	for k := range s.running {
		if k.pkg == pkg {
			left = append(left, k)
		}
	}
	// Subtests before their parents, which are then broken already.
	slices.SortFunc(left, func(a, b key) int { return strings.Compare(b.test, a.test) })
	for _, k := range left {
		if s.broken[k] {
			s.print(k)
		} else {
			s.fail(k, "DID NOT END")
		}
		delete(s.running, k)
	}
}

// finish counts what the stream left open and returns the totals.
func (s *summary) finish() (passed, failed int) {
	for pkg := range s.open {
		s.failRunning(pkg)
		if !s.broken[key{pkg, ""}] {
			s.failed[pkg]++
			fmt.Fprintf(s.out, "--- FAIL: %s: the events end before its result\n", pkg)
		}
	}
	for _, n := range s.passed {
		passed += n
	}
	for _, n := range s.failed {
		failed += n
	}
	return passed, failed
}

func keep[K comparable](texts map[K]*strings.Builder, k K, text string) {
	if texts[k] == nil {
		texts[k] = &strings.Builder{}
	}
	b := texts[k]
	if b.Len()+len(text) > outputBytesMax {
		half := b.String()[:min(b.Len(), outputBytesMax/2)]
		b.Reset()
		b.WriteString(half + "\n[…]\n")
	}
	b.WriteString(text)
}
