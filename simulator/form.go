package simulator

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// params are the form-encoded parameters of a request, with nested names such
// as metadata[order_id] and types[] as they came.
type params url.Values

func (p params) get(name string) string { return url.Values(p).Get(name) }

func (p params) has(name string) bool { _, ok := p[name]; return ok }

// root is the part of a parameter's name before its first bracket.
func root(name string) string {
	head, _, _ := strings.Cut(name, "[")
	return head
}

// unknown refuses a parameter whose root is not in the list.
func (p params) unknown(allowed []string) *apiError {
	names := make([]string, 0, len(p))
	for name := range p {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if r := root(name); r != "expand" && !slices.Contains(allowed, r) {
			return badParam(name, "parameter_unknown", "Received unknown parameter: "+name)
		}
	}
	return nil
}

// children are the parameters name[key], by key.
func (p params) children(name string) map[string]string {
	out := map[string]string{}
	for full, values := range p {
		rest, ok := strings.CutPrefix(full, name+"[")
		if !ok || !strings.HasSuffix(rest, "]") {
			continue
		}
		out[strings.TrimSuffix(rest, "]")] = values[0]
	}
	return out
}

// list is name[], name[0], name[1]…; the order of indexes is kept.
func (p params) list(name string) []string {
	out := append([]string(nil), p[name+"[]"]...)
	for i := 0; ; i++ {
		v, ok := p[name+"["+strconv.Itoa(i)+"]"]
		if !ok {
			return out
		}
		out = append(out, v...)
	}
}

func (p params) metadata() (map[string]string, *apiError) {
	m := p.children("metadata")
	if len(m) > metadataMax {
		return nil, badParam("metadata", "", "Metadata can have at most 50 keys")
	}
	for k, v := range m {
		if len(k) > metadataKeyMax || len(v) > metadataBytes {
			return nil, badParam("metadata["+k+"]", "", "Metadata keys have at most 40 and values at most 500 characters")
		}
		if v == "" {
			delete(m, k)
		}
	}
	return m, nil
}

func (p params) boolean(name string, fallback bool) (bool, *apiError) {
	switch p.get(name) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "":
		return fallback, nil
	}
	return false, badParam(name, "parameter_invalid_boolean", "Invalid boolean: "+p.get(name))
}

// integer reads plain decimal digits and nothing else.
func (p params) integer(name string) (int64, *apiError) {
	n, ok := digits(p.get(name))
	if !ok {
		return 0, badParam(name, "parameter_invalid_integer", "Invalid integer: "+p.get(name))
	}
	return n, nil
}

func digits(s string) (int64, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// amount reads an amount and checks it against the currency's rules.
func (p params) amount(name, currency string) (int64, *apiError) {
	if p.get(name) == "" {
		return 0, badParam(name, "parameter_missing", "Missing required param: "+name+".")
	}
	n, bad := p.integer(name)
	if bad != nil {
		return 0, bad
	}
	return n, checkAmount(name, currency, n)
}

// span is a filter created, created[gt], created[gte], created[lt], created[lte].
type span struct{ from, to int64 } // seconds, both included

func (p params) span(name string) (span, *apiError) {
	s := span{to: math.MaxInt64}
	if p.has(name) {
		n, bad := p.integer(name)
		return span{from: n, to: n}, bad
	}
	for key := range p.children(name) {
		n, bad := p.integer(name + "[" + key + "]")
		if bad != nil {
			return s, bad
		}
		switch key {
		case "gt":
			s.from = max(s.from, n+1)
		case "gte":
			s.from = max(s.from, n)
		case "lt":
			s.to = min(s.to, n-1)
		case "lte":
			s.to = min(s.to, n)
		default:
			return s, badParam(name+"["+key+"]", "parameter_unknown", "Received unknown parameter: "+name+"["+key+"]")
		}
	}
	return s, nil
}

func (s span) holds(at int64) bool { return at >= s.from && at <= s.to }

// canonical renders the parameters in one order, for comparing requests.
func (p params) canonical() string { return url.Values(p).Encode() }
