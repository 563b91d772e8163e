package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
)

const (
	recordDir  = "docs/adr"
	indexPath  = recordDir + "/README.md"
	indexBegin = "<!-- index, written by make generate -->\n"
	indexEnd   = "<!-- end of index -->\n"
)

var (
	recordName     = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	recordSections = []string{"Context", "Decision", "Alternatives", "Consequences"}
)

func checkRecords(root fs.FS) (problems []string, err error) {
	names, err := records(root)
	if err != nil {
		return nil, err
	}
	numbers := map[string]string{}
	for _, name := range names {
		where := path.Join(recordDir, name)
		match := recordName.FindStringSubmatch(name)
		if match == nil {
			problems = append(problems, where+": not named NNNN-title.md")
			continue
		}
		if other := numbers[match[1]]; other != "" {
			problems = append(problems, fmt.Sprintf("%s: the number is that of %s", where, other))
		}
		numbers[match[1]] = name
		text, err := fs.ReadFile(root, where)
		if err != nil {
			return nil, err
		}
		for _, section := range recordSections {
			if !strings.Contains(string(text), "\n## "+section) {
				problems = append(problems, fmt.Sprintf("%s: no section %q", where, section))
			}
		}
	}
	index, err := fs.ReadFile(root, indexPath)
	if err != nil {
		return nil, err
	}
	want, err := indexed(root, index)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(index, want) {
		problems = append(problems, indexPath+": the index is not current, run make generate")
	}
	return problems, nil
}

func records(root fs.FS) (names []string, err error) {
	entries, err := fs.ReadDir(root, recordDir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if path.Ext(entry.Name()) == ".md" && entry.Name() != path.Base(indexPath) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// indexed returns the page with the list of records between its two marks.
func indexed(root fs.FS, page []byte) ([]byte, error) {
	before, rest, begun := bytes.Cut(page, []byte(indexBegin))
	_, after, ended := bytes.Cut(rest, []byte(indexEnd))
	if !begun || !ended {
		return nil, fmt.Errorf("%s lacks the marks of the index", indexPath)
	}
	names, err := records(root)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(indexBegin)
	for _, name := range names {
		text, err := fs.ReadFile(root, path.Join(recordDir, name))
		if err != nil {
			return nil, err
		}
		title, _, _ := strings.Cut(string(text), "\n")
		fmt.Fprintf(&out, "- [%s](%s)\n", strings.TrimSpace(strings.TrimLeft(title, "# ")), name)
	}
	out.WriteString(indexEnd)
	out.Write(after)
	return out.Bytes(), nil
}

func writeIndex(root fs.FS) error {
	page, err := fs.ReadFile(root, indexPath)
	if err != nil {
		return err
	}
	want, err := indexed(root, page)
	if err != nil || bytes.Equal(page, want) {
		return err
	}
	return os.WriteFile(indexPath, want, 0o644)
}
