// Package subscribe decides which destinations hear of a message type.
//
// It stands between apply, which composes messages, and outbox, which delivers
// them; the two do not know each other. Invariant: both read a subscription in
// the same way, and raw provider events go only where they were asked for by
// name. It is pure and keeps no state; a crash here costs nothing.
package subscribe

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// everything is the pattern for all types but raw provider events.
	everything = "*"
	// under ends a pattern for all types below a prefix.
	under = ".*"
	// raw begins the types of provider events that are passed on as received.
	raw = "event."

	// patternBytesMax bounds a pattern, and so a message type.
	patternBytesMax = 128
)

// Matches says whether the pattern covers the message type: "*" all but raw
// provider events, "event.*" and the like all below the prefix, anything else
// itself alone.
func Matches(pattern, messageType string) bool {
	if pattern == everything {
		return !strings.HasPrefix(messageType, raw)
	}
	if prefix, ok := strings.CutSuffix(pattern, under); ok {
		rest, ok := strings.CutPrefix(messageType, prefix+".")
		return ok && rest != ""
	}
	return pattern == messageType
}

// CheckPattern says what is wrong with a pattern.
func CheckPattern(pattern string) error {
	name := strings.TrimSuffix(pattern, under)
	switch {
	case pattern == everything:
		return nil
	case pattern == "":
		return fmt.Errorf("an empty type")
	case len(pattern) > patternBytesMax:
		return fmt.Errorf("type %.20q… is longer than %d bytes", pattern, patternBytesMax)
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return !partOfName(r) }) {
			return fmt.Errorf("type %q is not *, a name such as payment.captured, or a prefix such as refund.*", pattern)
		}
	}
	return nil
}

func partOfName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// Set holds the subscriptions of all destinations. Its zero value has none. It
// never changes and is safe for concurrent use.
type Set struct {
	names    []string
	patterns [][]string
}

// NewSet returns the set of the patterns by destination.
func NewSet(types map[string][]string) Set {
	var s Set
	for name := range types {
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	for _, name := range s.names {
		s.patterns = append(s.patterns, slices.Clone(types[name]))
	}
	return s
}

// Destinations returns the names of those that subscribe to the type, sorted,
// each once.
func (s Set) Destinations(messageType string) []string {
	var found []string
	for i, patterns := range s.patterns {
		if slices.ContainsFunc(patterns, func(p string) bool { return Matches(p, messageType) }) {
			found = append(found, s.names[i])
		}
	}
	return found
}
