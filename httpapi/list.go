package httpapi

import (
	"context"

	"github.com/unavez/unavez/store"
)

// filter turns pairs of filter and value into the selection of a list; filters
// without a value are left out. One item more than asked is read, to know
// whether more follow.
func (p Paging) filter(pairs ...string) store.List {
	l := store.List{Where: map[string]string{}, After: p.StartingAfter, Limit: min(p.Limit, limitMax) + 1}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			l.Where[pairs[i]] = pairs[i+1]
		}
	}
	return l
}

// page renders what a list read, without the item that only says that more follow.
func page[R, D any](rows []R, limit int, render func(R) D) *list[D] {
	out := &list[D]{Body: Page[D]{Data: make([]D, 0, min(len(rows), limit)), HasMore: len(rows) > limit}}
	for _, row := range rows[:min(len(rows), limit)] {
		out.Body.Data = append(out.Body.Data, render(row))
	}
	return out
}

// view reads in one snapshot.
func view[T any](ctx context.Context, s store.Store, read func(store.Reader) (T, error)) (T, error) {
	var out T
	err := s.View(ctx, func(tx store.Reader) error {
		var err error
		out, err = read(tx)
		return err
	})
	return out, err
}
