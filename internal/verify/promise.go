package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

const promisesPath = "docs/promises.md"

// none stands in the test column of a promise that no test proves yet.
const none = "—"

var idForm = regexp.MustCompile(`^R\d+\.\d+$`)

// promise is a row of the table: id | promise | durable boundary | tests.
type promise struct {
	id    string
	tests []string // path#TestName
	line  int
}

func checkPromises(root fs.FS, strict bool) ([]string, error) {
	text, err := fs.ReadFile(root, promisesPath)
	if err != nil {
		return nil, err
	}
	rows, problems := parsePromises(string(text))
	seen := map[string]bool{}
	for _, row := range rows {
		where := fmt.Sprintf("%s:%d: %s", promisesPath, row.line, row.id)
		if seen[row.id] {
			problems = append(problems, where+" stands twice")
		}
		seen[row.id] = true
		if len(row.tests) == 0 && strict {
			problems = append(problems, where+" has no test")
		}
		for _, test := range row.tests {
			if problem := checkTest(root, row.id, test); problem != "" {
				problems = append(problems, where+": "+problem)
			}
		}
	}
	if len(rows) == 0 {
		problems = append(problems, promisesPath+" has no rows")
	}
	return problems, nil
}

// parsePromises reads the table's rows; a row of another form is a problem, for
// a promise must not vanish by a slip of the pen.
func parsePromises(text string) (rows []promise, problems []string) {
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| R") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		if len(cells) != 4 || !idForm.MatchString(cells[0]) || cells[1] == "" || cells[2] == "" || cells[3] == "" {
			problems = append(problems, fmt.Sprintf("%s:%d: not of the form | R1.1 | promise | boundary | path#Test or %s |", promisesPath, i+1, none))
			continue
		}
		row := promise{id: cells[0], line: i + 1}
		if cells[3] != none {
			for _, test := range strings.FieldsFunc(strings.ReplaceAll(cells[3], "<br>", " "), func(r rune) bool { return r == ' ' || r == ',' }) {
				row.tests = append(row.tests, strings.Trim(test, "`"))
			}
		}
		rows = append(rows, row)
	}
	return rows, problems
}

// checkTest returns what is wrong with "path#TestName" as a proof of id, where
// path is a Go file or a folder.
func checkTest(root fs.FS, id, test string) string {
	where, name, ok := strings.Cut(test, "#")
	if !ok {
		return fmt.Sprintf("%s is not of the form path#TestName", test)
	}
	files, err := goFiles(root, where)
	if err != nil {
		return fmt.Sprintf("%s does not exist", where)
	}
	for _, file := range files {
		carried, found, err := findTest(root, file, id, name)
		switch {
		case err != nil:
			return err.Error()
		case found && !carried:
			return fmt.Sprintf("%s does not carry %s in its name or comments", test, id)
		case found:
			return ""
		}
	}
	return fmt.Sprintf("%s has no test %s", where, name)
}

func goFiles(root fs.FS, where string) ([]string, error) {
	info, err := fs.Stat(root, where)
	if err != nil || !info.IsDir() {
		return []string{where}, err
	}
	return fs.Glob(root, path.Join(where, "*.go"))
}

// findTest looks for the function and for the id in its name (R1_3 or R1.3),
// in the comment above it or in one inside it. Besides tests, the exported
// functions of a conformance suite count: its package's name ends in "test",
// and they take the test.
func findTest(root fs.FS, file, id, name string) (carried, found bool, err error) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return false, false, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, text, parser.ParseComments)
	if err != nil {
		return false, false, errors.Join(fmt.Errorf("parsing %s", file), err)
	}
	for _, decl := range parsed.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Name.Name != name || !isTest(file, parsed.Name.Name, fn) {
			continue
		}
		from := fn.Pos()
		if fn.Doc != nil {
			from = fn.Doc.Pos()
		}
		for _, group := range parsed.Comments {
			if group.Pos() >= from && group.End() <= fn.End() && carries(group.Text(), id) {
				return true, true, nil
			}
		}
		return carries(strings.ReplaceAll(name, "_", "."), id), true, nil
	}
	return false, false, nil
}

func isTest(file, pkg string, fn *ast.FuncDecl) bool {
	if fn.Recv != nil || len(fn.Type.Params.List) == 0 {
		return false
	}
	if strings.HasSuffix(file, "_test.go") {
		return strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")
	}
	return strings.HasSuffix(pkg, "test") && fn.Name.IsExported()
}

// carries says whether the id stands in the text as a whole: R1.1 is not in R1.10.
func carries(text, id string) bool {
	for {
		at := strings.Index(text, id)
		if at < 0 {
			return false
		}
		text = text[at+len(id):]
		if text == "" || text[0] < '0' || text[0] > '9' {
			return true
		}
	}
}
