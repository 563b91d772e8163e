package httpapi

import (
	"context"
	"log/slog"
)

// info is what is known of a request while it runs.
type info struct {
	id        string
	route     string
	principal principal
	// body holds the bytes of a POST.
	body []byte
}

type infoKey struct{}

func withInfo(ctx context.Context, i *info) context.Context {
	return context.WithValue(ctx, infoKey{}, i)
}

// infoOf returns the request's info; outside of a request it is empty.
func infoOf(ctx context.Context) *info {
	if i, ok := ctx.Value(infoKey{}).(*info); ok {
		return i
	}
	return &info{}
}

// actorOf names who asks: always the credential.
func actorOf(ctx context.Context) string { return infoOf(ctx).principal.name }

func (a *API) log(ctx context.Context, level slog.Level, message string, attrs ...slog.Attr) {
	i := infoOf(ctx)
	attrs = append([]slog.Attr{slog.String("request_id", i.id), slog.String("route", i.route)}, attrs...)
	a.deps.Logger.LogAttrs(context.WithoutCancel(ctx), level, message, attrs...)
}
