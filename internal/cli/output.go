package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/payment"
)

// column is a column of a table: a title and where its value stands.
type column struct {
	title, path string
}

// rows writes documents as they come, in the chosen format.
type rows struct {
	a       *app
	columns []column
	table   *tabwriter.Writer
	list    []jsontext.Value
	count   int
	// first is the id, or else the name, of the first row of a table.
	first string
}

func (a *app) rows(columns ...column) *rows {
	r := &rows{a: a, columns: columns}
	if a.output == outTable {
		r.table = tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
		titles := make([]string, len(columns))
		for i, c := range columns {
			titles[i] = c.title
		}
		fmt.Fprintln(r.table, strings.Join(titles, "\t"))
	}
	return r
}

func (r *rows) add(doc jsontext.Value) error {
	r.count++
	switch r.a.output {
	case outJSON:
		r.list = append(r.list, doc.Clone())
		return nil
	case outJSONL:
		return writeLine(r.a.Out, doc)
	}
	var fields map[string]any
	if err := json.Unmarshal(doc, &fields, json.WithUnmarshalers(numbers)); err != nil {
		return fmt.Errorf("reading a document: %w", err)
	}
	if r.count == 1 {
		r.first, _ = fields["id"].(string)
		if name, ok := fields["name"].(string); ok && r.first == "" {
			r.first = name
		}
	}
	cells := make([]string, len(r.columns))
	for i, c := range r.columns {
		cells[i] = cell(lookup(fields, c.path))
	}
	_, err := fmt.Fprintln(r.table, strings.Join(cells, "\t"))
	return err
}

// end writes what is left; a JSON list is one object as the API gives it.
func (r *rows) end(more bool) error {
	switch r.a.output {
	case outJSON:
		if r.list == nil {
			r.list = []jsontext.Value{}
		}
		return r.a.writeJSON(page{Data: r.list, HasMore: more})
	case outTable:
		if err := r.table.Flush(); err != nil {
			return err
		}
		if more {
			fmt.Fprintln(r.a.Err, "There are more than are shown; --limit 0 shows all of a list.")
		}
	}
	return nil
}

// numbers keeps integers exact.
var numbers = json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	*v = jsontext.Value(raw.Clone())
	return nil
})

func lookup(fields map[string]any, path string) any {
	var at any = fields
	for part := range strings.SplitSeq(path, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[part]
	}
	return at
}

func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		if v == "" {
			return "-"
		}
		return plain(v)
	case bool:
		return strconv.FormatBool(v)
	case jsontext.Value:
		return string(v)
	case map[string]any:
		return money(v)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = cell(e)
		}
		return strings.Join(parts, " ")
	}
	return fmt.Sprint(v)
}

// plain keeps control characters off the terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '�'
		}
		return r
	}, s)
}

// money writes an amount in major units, exactly.
func money(m map[string]any) string {
	value, ok := m["value"].(jsontext.Value)
	currency, isText := m["currency"].(string)
	if !ok || !isText || currency == "" {
		return "-"
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return string(value) + " " + currency
	}
	text, err := payment.Money{Value: n, Currency: currency}.Decimal()
	if err != nil {
		return string(value) + " " + currency
	}
	return text + " " + currency
}

// document writes one document: indented JSON for people too, since it is the
// whole truth about one thing.
func (a *app) document(doc jsontext.Value) error {
	if a.output == outJSONL {
		return writeLine(a.Out, doc)
	}
	out := doc.Clone()
	if err := out.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	_, err := fmt.Fprintln(a.Out, string(out))
	return err
}

// writeJSON writes a value of ours as one document.
func (a *app) writeJSON(v any) error {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	return a.document(raw)
}

func writeLine(w io.Writer, doc jsontext.Value) error {
	line := doc.Clone()
	if err := line.Compact(); err != nil {
		return fmt.Errorf("reading a document: %w", err)
	}
	_, err := fmt.Fprintln(w, string(line))
	return err
}
