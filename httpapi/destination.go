package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/unavez/unavez/outbox"
)

// DestinationDocument is a system of the merchant and how it stands.
type DestinationDocument struct {
	Name string `json:"name"`
	// URL is without path and query, which may carry a token.
	URL        string    `json:"url" doc:"Scheme and host"`
	Types      []string  `json:"types"`
	Idempotent bool      `json:"idempotent"`
	Paused     bool      `json:"paused"`
	Breaker    string    `json:"breaker" enum:"closed,half-open,open"`
	InFlight   int       `json:"in_flight" doc:"Of the process that answers"`
	GoneAt     time.Time `json:"gone_at,omitzero" doc:"When it answered 410"`
	HeldUntil  time.Time `json:"held_until,omitzero" doc:"When it wants to hear from us again"`
}

// TestedDocument names the message that tests a destination.
type TestedDocument struct {
	Destination string `json:"destination"`
	Message     string `json:"message"`
}

type byName struct {
	Name string `path:"name" maxLength:"512"`
}

func (a *API) registerDestinations() {
	handle(a, call{
		id: "list-destinations", method: http.MethodGet, path: "/v1/destinations", tag: "destinations", role: RoleRead,
		summary: "List destinations", text: "Those of the configuration, by name; the cursor is a name.",
	}, a.listDestinations)
	handle(a, call{
		id: "pause-destination", method: http.MethodPost, path: "/v1/destinations/{name}/pause", tag: "destinations", role: RoleOperate,
		status: http.StatusOK, summary: "Send a destination nothing", body: remarkBody{}, bodyOptional: true,
		text: "Messages gather until it is resumed. Pausing again changes nothing.",
	}, a.pauseDestination)
	handle(a, call{
		id: "resume-destination", method: http.MethodPost, path: "/v1/destinations/{name}/resume", tag: "destinations", role: RoleOperate,
		status: http.StatusOK, summary: "Send a destination its messages again", body: remarkBody{}, bodyOptional: true,
		text: "Also for one that answered that it is gone, or asked for a pause.",
	}, a.resumeDestination)
	handle(a, call{
		id: "test-destination", method: http.MethodPost, path: "/v1/destinations/{name}/test", tag: "destinations", role: RoleOperate,
		status: http.StatusAccepted, summary: "Send a test message", body: emptyBody{}, bodyOptional: true,
		text: "A message of the type `destination.test` goes through the same queue as every other.",
	}, a.testDestination)
}

func (a *API) listDestinations(ctx context.Context, in *Paging) (*list[DestinationDocument], error) {
	states, err := a.deps.Relay.States(ctx)
	if err != nil {
		return nil, err
	}
	if in.StartingAfter != "" {
		at := slices.IndexFunc(states, func(s outbox.State) bool { return s.Name == in.StartingAfter })
		if at < 0 {
			return nil, refused("starting_after", "is no destination")
		}
		states = states[at+1:]
	}
	return page(states, in.Limit, a.destinationDocument), nil
}

func (a *API) pauseDestination(ctx context.Context, in *byName) (*one[DestinationDocument], error) {
	return a.setDestination(ctx, in.Name, a.deps.Relay.Pause)
}

func (a *API) resumeDestination(ctx context.Context, in *byName) (*one[DestinationDocument], error) {
	return a.setDestination(ctx, in.Name, a.deps.Relay.Resume)
}

func (a *API) setDestination(ctx context.Context, name string, set func(ctx context.Context, name, actor, reason string) error) (*one[DestinationDocument], error) {
	reason, err := remarkOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := set(ctx, name, actorOf(ctx), reason); err != nil {
		return nil, err
	}
	states, err := a.deps.Relay.States(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		if s.Name == name {
			return &one[DestinationDocument]{Status: http.StatusOK, Body: a.destinationDocument(s)}, nil
		}
	}
	return nil, outbox.ErrDestination
}

func (a *API) testDestination(ctx context.Context, in *byName) (*one[TestedDocument], error) {
	if err := nothing(ctx); err != nil {
		return nil, err
	}
	message, err := a.deps.Relay.Test(ctx, in.Name, actorOf(ctx))
	return &one[TestedDocument]{Status: http.StatusAccepted, Body: TestedDocument{in.Name, message}}, err
}

func (a *API) destinationDocument(s outbox.State) DestinationDocument {
	d := DestinationDocument{
		Name: s.Name, Types: []string{}, Paused: s.Paused, Breaker: s.Breaker, InFlight: s.InFlight,
		GoneAt: s.GoneAt, HeldUntil: s.HeldUntil,
	}
	for i := range a.deps.Destinations {
		c := &a.deps.Destinations[i]
		if c.Name != s.Name {
			continue
		}
		d.Types, d.Idempotent = append(d.Types, c.Types...), c.Idempotent == nil || *c.Idempotent
		if u, err := url.Parse(c.URL); err == nil {
			d.URL = u.Scheme + "://" + u.Host
		}
	}
	return d
}
