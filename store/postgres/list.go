package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/unavez/unavez/store"
)

const listLimitMax = 101

// filters maps a column of the outside interface to the expression that is
// compared with the wanted value.
type filters map[string]string

// boolean ends the expression of a column that is true or false.
const boolean = "::boolean::text"

// page builds the end of a list: conditions, order and bound. The keys of
// l.Where never reach the text of the statement, only what the filters hold.
// More conditions, which a partial index can answer, may be given as text.
func (f filters) page(id string, l store.List, conditions ...string) (string, []any, error) {
	var args []any
	parameter := func(value any) string {
		args = append(args, value)
		return "$" + strconv.Itoa(len(args))
	}
	for _, column := range slices.Sorted(maps.Keys(l.Where)) {
		expression, ok := f[column]
		if !ok {
			return "", nil, fmt.Errorf("postgres: filtering by %.40q: %w", column, store.ErrFilter)
		}
		value := l.Where[column]
		if strings.ContainsRune(value, 0) || strings.ToValidUTF8(value, "") != value {
			return "", nil, fmt.Errorf("postgres: filtering by %s: the value is no text: %w", column, store.ErrFilter)
		}
		if strings.HasSuffix(expression, boolean) && value != "true" && value != "false" {
			return "", nil, fmt.Errorf("postgres: filtering by %s: neither true nor false: %w", column, store.ErrFilter)
		}
		conditions = append(conditions, expression+" = "+parameter(value)+"::text")
	}
	if l.After != "" {
		conditions = append(conditions, id+" < "+parameter(l.After)+"::text")
	}
	where := ""
	if len(conditions) > 0 {
		where = " WHERE " + strings.Join(conditions, " AND ")
	}
	limit := min(max(l.Limit, 1), listLimitMax)
	return where + " ORDER BY " + id + " DESC LIMIT " + strconv.Itoa(limit), args, nil
}
