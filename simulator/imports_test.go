package simulator

import (
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The books can be an oracle only if nothing that they judge has a part in them.
func TestImportsNothingOfTheModule(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if name == "github.com/unavez/unavez" || strings.HasPrefix(name, "github.com/unavez/unavez/") {
				t.Errorf("%s imports %s", f.Name(), name)
			}
		}
	}
	if seen < 20 {
		t.Fatalf("only %d files were looked at", seen)
	}
}
