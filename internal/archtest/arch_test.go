package archtest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/unavez/unavez"

func TestTree(t *testing.T) {
	root := os.DirFS("../..")
	found, err := Check(root, module)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range found {
		t.Error(violation)
	}
	sources, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(sources, func(s source) bool { return s.file == "internal/archtest/check.go" }) {
		t.Errorf("the walk over %d files has not seen this package", len(sources))
	}
}

// Each part named in the picture exists in it, so that a typing error cannot
// forbid or allow nothing.
func TestPictureIsSound(t *testing.T) {
	names := ""
	for _, p := range picture {
		if has(names, p.name) {
			t.Errorf("part %s stands twice", p.name)
		}
		names += " " + p.name
	}
	for _, p := range picture {
		for _, used := range strings.Fields(p.uses) {
			if !has(names, used) {
				t.Errorf("part %s uses %s, which is no part", p.name, used)
			}
			if used == "root" && !has("edge cli tool", p.name) {
				t.Errorf("part %s lies below root and may import it", p.name)
			}
			if used == "simulator" && !has("cli tool", p.name) {
				t.Errorf("part %s may import the simulator", p.name)
			}
		}
	}
	for name := range pure {
		if !has(names, name) {
			t.Errorf("%s is pure and no part", name)
		}
	}
}

func TestArrows(t *testing.T) {
	for _, c := range []struct {
		from, to string // folder or file, import; a path with a dot in front is ours
		allowed  bool
	}{
		{"payment", "strconv", true},
		{"payment", "context", false},
		{"payment", "net/http", false},
		{"payment", "net/netip", false},
		{"payment", "database/sql", false},
		{"payment", "os", false},
		{"payment", "os/exec", false},
		{"payment", "time", false},
		{"payment", "ostrich.example/os", true},
		{"payment", "./internal/id", false},
		{"payment", "./provider", false},
		{"payment/x_test.go", "os", true},
		{"provider", "context", true},
		{"provider", "./payment", true},
		{"provider", "./store", false},
		{"provider", "./provider/stripe", false},
		{"provider/stripe", "./provider", true},
		{"provider/stripe", "./internal/id", true},
		{"provider/stripe", "./provider/adyen", false},
		{"provider/stripe", "./store", false},
		{"provider/stripe/wire", "./provider/stripe", true},
		{"provider/stripe", "./provider/stripe/wire", true},
		{"provider/providertest", "./provider", true},
		{"provider/providertest", "./provider/stripe", false},
		{"provider/all", "./provider/stripe", true},
		{"provider/all", "./store", false},
		{"store", "./payment", true},
		{"store", "./provider", false},
		{"store", "./store/sqlite", false},
		{"store/sqlite", "./store", true},
		{"store/sqlite", "./store/postgres", false},
		{"store/sqlite", "./provider", false},
		{"store/storetest", "./store/sqlite", false},
		{"store/sqlite/x_test.go", "./store/storetest", true},
		{"inbox", "./store", true},
		{"inbox", "./apply", false},
		{"apply", "./inbox", true},
		{"apply", "./outbox", false},
		{"receive", "./inbox", true},
		{"receive", "./apply", true},
		{"receive", "./outbox", false},
		{"receive", ".", false},
		{"receive", "./store/sqlite", false},
		{"receive", "./provider/stripe", false},
		{"receive/x_test.go", "./store/sqlite", true},
		{"intake/sqs", "./intake", true},
		{"intake/sqs", "./receive", false},
		{"reconcile", "./exception", false},
		{".", "./receive", true},
		{".", "./store/postgres", true},
		{".", "./httpapi", false},
		{".", "./simulator", false},
		{"httpapi", ".", true},
		{"httpapi", "./store", true},
		{"httpapi", "./console", false},
		{"internal/id", ".", false},
		{"internal/id", "./store", false},
		{"internal/other", "./internal/id", true},
		{"internal/cli", "./httpapi", true},
		{"internal/cli", "./simulator", true},
		{"internal/cli", "./internal/config", true},
		{"internal/cli", "./internal/bench", false},
		{"cmd/unavez", "./internal/cli", true},
		{"cmd/unavez", "./httpapi", false},
		{"cmd/unavez", ".", false},
		{"internal/bench", "./simulator", true},
		{"outbox", "./simulator", false},
		{"outbox/x_test.go", "./simulator", true},
		{"simulator", "net/http", true},
		{"simulator", "./payment", false},
		{"simulator", "./internal/id", false},
		{"simulator/x_test.go", "./provider/stripe", false},
		{"unheard", "strconv", false},
	} {
		imported := c.to
		if strings.HasPrefix(c.to, ".") {
			imported = module + c.to[1:]
		}
		file, dir := c.from, c.from
		if name, isFile := strings.CutSuffix(c.from, "/x_test.go"); isFile {
			dir = name
		} else {
			file += "/x.go"
		}
		tree := fstest.MapFS{strings.TrimPrefix(file, "./"): {Data: []byte("// Package x is here.\npackage x\nimport _ \"" + imported + "\"\n")}}
		found, err := Check(tree, module)
		if err != nil {
			t.Fatal(err)
		}
		if allowed := len(found) == 0; allowed != c.allowed {
			t.Errorf("%s (%s) imports %s: allowed %t, want %t: %q", file, dir, c.to, allowed, c.allowed, found)
		}
	}
}

func TestForm(t *testing.T) {
	long := strings.Repeat("//\n", fileLinesMax)
	for _, c := range []struct {
		name, file, text string
		want             string // part of the only violation; empty for none
	}{
		{"at the bound", "payment/a.go", "// Package a is.\npackage a\n" + long[:len(long)-6], ""},
		{"over the bound", "payment/a.go", "// Package a is.\npackage a\n" + long, "lines"},
		{"a long test", "payment/a_test.go", "// Package a is.\npackage a\n" + long, ""},
		{"templ's output", "console/a_templ.go", "// Package a is.\npackage a\n" + long, ""},
		{"a generated file", "payment/a.go", "// Code generated by x. DO NOT EDIT.\n\n// Package a is.\npackage a\n" + long, ""},
		{"no comment", "payment/a.go", "package a\n", "no doc.go"},
		{"a build tag is no comment", "payment/a.go", "//go:build never\n\npackage a\n", "no doc.go"},
		{"an empty name", "internal/x/a.go", "// Package util is.\npackage util\n", "says nothing"},
		{"a tag hides nothing", "payment/a.go", "//go:build never\n\n// Package a is.\npackage a\nimport \"os\"\n", "pure"},
		{"a nested module is apart", "internal/sdktest/a.go", "package a\n", ""},
		{"fixtures are apart", "payment/testdata/a.go", "package a\n", ""},
	} {
		tree := fstest.MapFS{c.file: {Data: []byte(c.text)}, "internal/sdktest/go.mod": {}}
		found, err := Check(tree, module)
		if err != nil {
			t.Fatal(err)
		}
		if (c.want == "") != (len(found) == 0) || len(found) > 1 || c.want != "" && !strings.Contains(found[0], c.want) {
			t.Errorf("%s: %q, want %q", c.name, found, c.want)
		}
	}
	if _, err := Check(fstest.MapFS{"payment/a.go": {Data: []byte("pack age")}}, module); err == nil {
		t.Error("a file that does not parse passes")
	}
}
