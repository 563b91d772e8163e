package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	const start = `{"Action":"start","Package":"p"}` + "\n"
	for _, c := range []struct {
		name, events   string
		passed, failed int
		shows, hides   string
	}{
		{"subtests count instead of their parent", start +
			`{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/x"}
{"Action":"run","Package":"p","Test":"A/y"}
{"Action":"output","Package":"p","Test":"A/x","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"A/x"}
{"Action":"pass","Package":"p","Test":"A/y"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"pass","Package":"p"}`, 2, 0, "2 passed", "quiet"},
		{"a failed subtest is one failure, shown in full", start +
			`{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/x"}
{"Action":"output","Package":"p","Test":"A/x","Output":"got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"A/x"}
{"Action":"output","Package":"p","Test":"A","Output":"of the parent\n"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"fail","Package":"p"}`, 0, 1, "got 1, want 2\nof the parent", ""},
		{"a parent that fails on its own counts", start +
			`{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/x"}
{"Action":"pass","Package":"p","Test":"A/x"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"fail","Package":"p"}`, 1, 1, "--- FAIL: p A", ""},
		{"a skip fails", start +
			`{"Action":"run","Package":"p","Test":"A"}
{"Action":"skip","Package":"p","Test":"A"}
{"Action":"pass","Package":"p"}`, 0, 1, "SKIPPED", ""},
		{"a build that fails shows the compiler's words",
			`{"ImportPath":"p.test","Action":"build-output","Output":"x.go:1: undefined: y\n"}
{"ImportPath":"p.test","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","FailedBuild":"p.test"}`, 0, 1, "undefined: y", ""},
		{"a panic leaves tests that did not end", start +
			`{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/x"}
{"Action":"output","Package":"p","Test":"A/x","Output":"panic: boom\n"}
{"Action":"fail","Package":"p"}`, 0, 1, "panic: boom", ""},
		{"TestMain that gives up", start +
			`{"Action":"output","Package":"p","Output":"no server\n"}
{"Action":"fail","Package":"p"}`, 0, 1, "no server", ""},
		{"a stream that ends early", start +
			`{"Action":"run","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Test":"A"}`, 1, 1, "the events end before", ""},
		{"a package without tests is nothing", start +
			`{"Action":"skip","Package":"p"}`, 0, 0, "", "p"},
		{"words of the go command stay", "go: cannot find main module\n", 0, 0, "cannot find", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(c.events)); err != nil {
				t.Fatal(err)
			}
			passed, failed := s.finish()
			if passed != c.passed || failed != c.failed {
				t.Errorf("%d passed, %d failed; want %d, %d\n%s", passed, failed, c.passed, c.failed, out.String())
			}
			if !strings.Contains(out.String(), c.shows) {
				t.Errorf("output lacks %q:\n%s", c.shows, out.String())
			}
			if c.hides != "" && strings.Contains(out.String(), c.hides) {
				t.Errorf("output shows %q:\n%s", c.hides, out.String())
			}
		})
	}
}

func TestOutputIsBounded(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	for range 100 {
		s.take(event{Action: "output", Package: "p", Test: "A", Output: strings.Repeat("x", outputBytesMax/16)})
	}
	s.take(event{Action: "output", Package: "p", Test: "A", Output: "the end\n"})
	s.take(event{Action: "fail", Package: "p", Test: "A"})
	if got := out.String(); len(got) > outputBytesMax+1024 || !strings.Contains(got, "the end") {
		t.Errorf("%d bytes kept, end kept: %t", len(got), strings.Contains(got, "the end"))
	}
}

func TestAppendCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	for _, n := range [][2]int{{3, 0}, {1, 2}} {
		if err := appendCounts(path, n[0], n[1]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "3 0\n1 2\n" {
		t.Errorf("%q, %v", got, err)
	}
}
