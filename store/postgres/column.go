package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// column is one column of a set of rows that travels as one array.
type column[T any] struct {
	name, kind string
	collect    func(rows []T) any
}

// columns passes rows of any number to one statement: as arrays that the
// server turns into rows again, in their order.
type columns[T any] []column[T]

func collect[T, V any](name, kind string, get func(*T) V) column[T] {
	return column[T]{name, kind, func(rows []T) any {
		values := make([]V, len(rows))
		for i := range rows {
			values[i] = get(&rows[i])
		}
		return values
	}}
}

func text[T any](name string, get func(*T) string) column[T] { return collect(name, "text", get) }

func whole[T any](name string, get func(*T) int64) column[T] { return collect(name, "bigint", get) }

func flag[T any](name string, get func(*T) bool) column[T] { return collect(name, "boolean", get) }

func instant[T any](name string, get func(*T) time.Time) column[T] {
	return collect(name, "bigint", func(row *T) int64 { return micros(get(row)) })
}

func octets[T any](name string, get func(*T) []byte) column[T] {
	return collect(name, "bytea", func(row *T) []byte { return octet(get(row)) })
}

// args are the arrays, in the order of the columns.
func (c columns[T]) args(rows []T) []any {
	args := make([]any, len(c))
	for i := range c {
		args[i] = c[i].collect(rows)
	}
	return args
}

// names lists the columns.
func (c columns[T]) names() string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].name
	}
	return strings.Join(names, ", ")
}

// rows is the source "u" of a FROM, with parameters from $first on.
func (c columns[T]) rows(first int) string {
	arrays := make([]string, len(c))
	for i := range c {
		arrays[i] = fmt.Sprintf("$%d::%s[]", first+i, c[i].kind)
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS u (" + c.names() + ")"
}

// assign sets the columns, those named apart, from the source: "u" or "excluded".
func (c columns[T]) assign(source string, except ...string) string {
	var set []string
	for i := range c {
		if name := c[i].name; !slices.Contains(except, name) {
			set = append(set, name+" = "+source+"."+name)
		}
	}
	return strings.Join(set, ", ")
}

// insert stores the rows; what follows (ON CONFLICT, RETURNING) is appended.
func (c columns[T]) insert(table, then string) string {
	return "INSERT INTO " + table + " (" + c.names() + ") SELECT * FROM " + c.rows(1) + " " + then
}

// micros is the ledger's form of an instant; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment reads an instant back.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// octet keeps nil apart from NULL: bytes are never NULL in the ledger.
func octet(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// nowSQL is the transaction's instant by the ledger's clock.
const nowSQL = `(extract(epoch FROM now()) * 1000000)::bigint`

// some is octet's way back.
func some(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// sortedKeys puts rows that are about to be locked in the order of all lockers.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// distinct sorts by a key and keeps the last of each: one statement cannot
// write a row twice.
func distinct[T any](list []T, key func(*T) string) []T {
	last := make(map[string]T, len(list))
	for i := range list {
		last[key(&list[i])] = list[i]
	}
	kept := make([]T, 0, len(last))
	for _, k := range sortedKeys(last) {
		kept = append(kept, last[k])
	}
	return kept
}
