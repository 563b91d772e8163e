package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
)

var (
	inlineLink    = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	referenceLink = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)`)
	inlineCode    = regexp.MustCompile("`[^`]*`")
	heading       = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	anchor        = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
	markdownLink  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

func checkLinks(root fs.FS) (problems []string, err error) {
	err = walk(root, func(name string) error {
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		for i, line := range prose(string(text)) {
			for _, target := range targets(line) {
				if problem := checkLink(root, name, target); problem != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: %s", name, i+1, problem))
				}
			}
		}
		return nil
	})
	return problems, err
}

// prose returns the lines with code taken out, so that line numbers stay.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	fence := ""
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
			lines[i] = ""
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
			lines[i] = ""
		}
	}
	return lines
}

func targets(line string) (found []string) {
	line = inlineCode.ReplaceAllString(line, "")
	for _, match := range inlineLink.FindAllStringSubmatch(line, -1) {
		found = append(found, match[1])
	}
	if match := referenceLink.FindStringSubmatch(line); match != nil {
		found = append(found, match[1])
	}
	return found
}

// checkLink says what is wrong with a link in the file; links that leave the
// tree are not followed.
func checkLink(root fs.FS, from, target string) string {
	to, err := url.Parse(target)
	if err != nil {
		return fmt.Sprintf("link %s cannot be read", target)
	}
	if to.Scheme != "" || to.Host != "" {
		return ""
	}
	name := from
	if to.Path != "" {
		name = path.Join(path.Dir(from), to.Path)
	}
	if strings.HasPrefix(to.Path, "/") || !fs.ValidPath(name) {
		return fmt.Sprintf("link %s leaves the tree", target)
	}
	if _, err := fs.Stat(root, name); err != nil {
		return fmt.Sprintf("link %s leads nowhere", target)
	}
	if to.Fragment == "" || path.Ext(name) != ".md" {
		return ""
	}
	text, err := fs.ReadFile(root, name)
	if err != nil || !anchors(string(text))[to.Fragment] {
		return fmt.Sprintf("link %s: %s has no such heading", target, name)
	}
	return ""
}

// anchors returns the fragments of a page: its headings as forges write them,
// a repeated one with a number, and explicit ones.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	times := map[string]int{}
	for _, line := range prose(text) {
		for _, match := range anchor.FindAllStringSubmatch(line, -1) {
			found[match[1]] = true
		}
		match := heading.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		id := slug(markdownLink.ReplaceAllString(match[1], "$1"))
		if n := times[id]; n > 0 {
			found[fmt.Sprintf("%s-%d", id, n)] = true
		} else {
			found[id] = true
		}
		times[id]++
	}
	return found
}

func slug(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}
