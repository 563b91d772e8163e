package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// source is what a check needs of one file.
type source struct {
	file    string // relative to the module's root
	dir     string
	pkg     string
	test    bool
	lines   int
	doc     bool // has a package comment
	machine bool // generated
	imports []string
}

// Check reads the module with the path below root and returns every violation,
// sorted, one sentence each. An error means that the tree could not be read.
func Check(root fs.FS, module string) ([]string, error) {
	sources, err := read(root)
	if err != nil {
		return nil, err
	}
	var found []string
	documented := map[string]bool{}
	for _, src := range sources {
		documented[src.dir] = documented[src.dir] || src.doc
		found = append(found, arrows(src, module)...)
		found = append(found, form(src)...)
	}
	for dir, ok := range documented {
		if !ok {
			found = append(found, fmt.Sprintf("%s: the package has no doc.go and no package comment", dir))
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// read parses every Go file of the module, nested modules apart.
func read(root fs.FS) ([]source, error) {
	var sources []source
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && (strings.ContainsAny(entry.Name()[:1], "._") || entry.Name() == "testdata" || nested(root, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.ContainsAny(entry.Name()[:1], "._") {
			return nil
		}
		src, err := parse(root, name)
		if err != nil {
			return err
		}
		sources = append(sources, src)
		return nil
	})
	return sources, err
}

func nested(root fs.FS, dir string) bool {
	_, err := fs.Stat(root, path.Join(dir, "go.mod"))
	return err == nil
}

func parse(root fs.FS, name string) (source, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return source{}, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return source{}, fmt.Errorf("parsing %s: %w", name, err)
	}
	src := source{
		file: name, dir: path.Dir(name), pkg: file.Name.Name,
		test:    strings.HasSuffix(name, "_test.go"),
		lines:   bytes.Count(text, []byte("\n")),
		doc:     file.Doc != nil && strings.TrimSpace(file.Doc.Text()) != "",
		machine: ast.IsGenerated(file) || strings.HasSuffix(name, "_templ.go") || strings.HasSuffix(name, ".gen.go"),
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, fmt.Errorf("parsing %s: %w", name, err)
		}
		src.imports = append(src.imports, imported)
	}
	return src, nil
}

// arrows checks a file's imports against the picture.
func arrows(src source, module string) (found []string) {
	from, fromPlace := locate(src.dir)
	if from.name == "" {
		return []string{fmt.Sprintf("%s: the folder has no place in the picture (internal/archtest/picture.go)", src.dir)}
	}
	if src.test && !testsToo[from.name] {
		return nil
	}
	for _, imported := range src.imports {
		dir, ours := within(imported, module)
		if !ours {
			if !src.test {
				found = append(found, impure(src, from, imported)...)
			}
			continue
		}
		to, toPlace := locate(dir)
		switch {
		case fromPlace == toPlace:
		case to.name == "":
			found = append(found, fmt.Sprintf("%s imports %s, which has no place in the picture", src.file, dir))
		case !has(from.uses, to.name):
			found = append(found, fmt.Sprintf("%s (%s) may not import %s (%s)", src.file, from.name, dir, to.name))
		}
	}
	return found
}

func impure(src source, from part, imported string) (found []string) {
	for _, banned := range strings.Fields(pure[from.name]) {
		if imported == banned || strings.HasPrefix(imported, banned+"/") {
			found = append(found, fmt.Sprintf("%s (%s) is pure and may not import %s", src.file, from.name, imported))
		}
	}
	return found
}

// form checks what does not depend on imports.
func form(src source) (found []string) {
	if !src.test && !src.machine && src.lines > fileLinesMax {
		found = append(found, fmt.Sprintf("%s has %d lines, more than %d", src.file, src.lines, fileLinesMax))
	}
	if name := strings.TrimSuffix(src.pkg, "_test"); has(nothingNames, name) {
		found = append(found, fmt.Sprintf("%s: package name %q says nothing about what is inside", src.dir, name))
	}
	return found
}

// within returns the folder of an import of the module.
func within(imported, module string) (dir string, ours bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// locate returns the part of a folder and the folder of the part's place that
// holds it: provider/stripe/x is in provider/stripe, of the place provider/*.
func locate(dir string) (best part, place string) {
	literals := -1
	for _, p := range picture {
		for _, pattern := range strings.Fields(p.places) {
			if n, folder, ok := fits(pattern, dir); ok && n > literals {
				best, place, literals = p, folder, n
			}
		}
	}
	return best, place
}

// fits says whether dir is at or below the pattern, where, and how many names
// of the pattern are literal. A longer pattern counts before a literal name.
func fits(pattern, dir string) (literals int, folder string, ok bool) {
	if pattern == "." || dir == "." {
		return 0, ".", pattern == dir
	}
	wanted, names := strings.Split(pattern, "/"), strings.Split(dir, "/")
	if len(wanted) > len(names) {
		return 0, "", false
	}
	for i, name := range wanted {
		switch name {
		case names[i]:
			literals += 3
		case "*":
			literals += 2
		default:
			return 0, "", false
		}
	}
	return literals, strings.Join(names[:len(wanted)], "/"), true
}

func has(list, name string) bool { return slices.Contains(strings.Fields(list), name) }
