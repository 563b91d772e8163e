package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unavez/unavez/idempotency"
)

// API is the handler of the private listener. It is safe for concurrent use.
type API struct {
	deps     Deps
	mux      *http.ServeMux
	huma     huma.API
	document []byte
	door     *door
	hosts    hosts
	browsers *http.CrossOriginProtection
	keeper   *idempotency.Keeper
	metrics  *metrics
	health   health
	refusals refusals
	slots    chan struct{}
	draining atomic.Bool
}

// New wires the calls and registers the metrics. It starts nothing.
func New(deps Deps) (*API, error) {
	if err := deps.fill(); err != nil {
		return nil, err
	}
	a := &API{
		deps: deps, mux: http.NewServeMux(), hosts: newHosts(deps.Listen, deps.Hosts),
		browsers: http.NewCrossOriginProtection(), slots: make(chan struct{}, requestsMax),
	}
	var err error
	if a.door, err = newDoor(&deps); err != nil {
		return nil, err
	}
	if a.keeper, err = idempotency.New(deps.Store, deps.Keys); err != nil {
		return nil, err
	}
	a.metrics = newMetrics(&deps)
	if err := deps.Registry.Register(a.metrics); err != nil {
		return nil, fmt.Errorf("httpapi: registering metrics: %w", err)
	}
	a.register()
	if a.document, err = render(a.huma.OpenAPI()); err != nil {
		return nil, err
	}
	return a, nil
}

// Document returns the OpenAPI 3.1 document without a server behind it.
func Document() ([]byte, error) {
	a := &API{mux: http.NewServeMux(), keeper: &idempotency.Keeper{}, deps: Deps{Registry: prometheus.NewRegistry()}}
	a.register()
	return render(a.huma.OpenAPI())
}

// Start begins to remove old Idempotency-Keys.
func (a *API) Start(ctx context.Context) { a.keeper.Start(ctx) }

// Stop ends what Start began, and waits for it.
func (a *API) Stop() { a.keeper.Stop() }

// Drain makes /readyz say no, so that nobody sends more; what comes is served.
func (a *API) Drain() { a.draining.Store(true) }

// OpenAPI returns the OpenAPI 3.1 document.
func (a *API) OpenAPI() []byte { return a.document }

// NewServer returns a server for the private listener with its limits.
func NewServer(addr string, a *API) *http.Server {
	return &http.Server{
		Addr: addr, Handler: a, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		ErrorLog:    slog.NewLogLogger(a.deps.Logger.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return context.Background() },
	}
}

// register wires every route.
func (a *API) register() {
	format := huma.Format{
		Marshal: func(w io.Writer, v any) error { return json.MarshalWrite(w, v, json.Deterministic(true)) },
		Unmarshal: func(data []byte, v any) error {
			return errors.New("httpapi: impossible: the library reads no body")
		},
	}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "unavez", Version: "v1", Description: apiDescription,
				License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Servers: []*huma.Server{{URL: "/"}},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					securityName: {Type: "http", Scheme: "bearer", Description: "A token of the configuration, or one made by POST /v1/tokens."},
				},
			},
		},
		// The short name serves problem+json.
		Formats: map[string]huma.Format{jsonContentType: format, "json": format}, DefaultFormat: jsonContentType,
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{a.transform},
	}
	config.AllowAdditionalPropertiesByDefault = true
	a.huma = huma.NewAPI(config, adapter{a})
	a.registerPayments()
	a.registerOrders()
	a.registerEvents()
	a.registerMessages()
	a.registerDestinations()
	a.registerExceptions()
	a.registerAudit()
	a.registerSearch()
	a.registerTokens()
	a.registerOperational()
	tidy(a.huma.OpenAPI().Components.Schemas.Map())
}

// tidy makes the schemas say what is sent: the library's own model of errors
// never is, and neither is a list that is null.
func tidy(schemas map[string]*huma.Schema) {
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	schemas["Money"].Description = "An exact amount in minor units of ISO 4217: 4800 EUR is 48.00 euro, 4800 JPY is 4800 yen."
	for _, s := range schemas {
		for _, property := range s.Properties {
			if property.Type == huma.TypeArray {
				property.Nullable = false
			}
		}
	}
}

const securityName = "token"

const apiDescription = `The private API of unavez: payments and what is known of them.

Amounts are integers in minor units of ISO 4217. Instants are RFC 3339 in UTC. Lists are newest first.
Every POST takes an Idempotency-Key. Errors are problems by RFC 9457 with a stable code; the page of
a code is served at /problems/{code}.`

// schemaName names a type in the document: EventDocument is Event there, a page
// of them EventList, and ReasonBody ReasonRequest.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if item, ok := strings.CutPrefix(name, "Page"); ok {
		name = item + "List"
	}
	if kind, ok := strings.CutSuffix(name, "Body"); ok {
		name = kind + "Request"
	}
	return strings.ReplaceAll(name, "Document", "")
}

// call describes one operation.
type call struct {
	id, method, path, summary, text, tag string
	role                                 Role
	status                               int
	// body is the type of the request's body, nil for none.
	body         any
	bodyOptional bool
	// also is a further status with the same answer, and what it says.
	also     int
	alsoSays string
	// raw is the media type of an answer that is not JSON.
	raw string
	// codes are the refusals that belong to this call, besides those of all.
	codes  []Code
	redact func([]byte) []byte
}

// handle registers an operation and gives it the one way of refusing.
func handle[I, O any](a *API, c call, run func(context.Context, *I) (*O, error)) {
	op := huma.Operation{
		OperationID: c.id, Method: c.method, Path: c.path, Summary: c.summary, Tags: []string{c.tag}, DefaultStatus: c.status,
		Description: describe(c), Metadata: map[string]any{roleKey: c.role}, SkipValidateBody: true,
		Responses: map[string]*huma.Response{},
	}
	if c.redact != nil {
		op.Metadata[redactKey] = c.redact
	}
	if c.role != roleNone {
		op.Security = []map[string][]string{{securityName: {}}}
	}
	schemas := a.huma.OpenAPI().Components.Schemas
	if c.body != nil {
		op.RequestBody = &huma.RequestBody{Required: !c.bodyOptional, Content: map[string]*huma.MediaType{
			jsonContentType: {Schema: schemas.Schema(reflect.TypeOf(c.body), true, c.id)},
		}}
	}
	if c.method == http.MethodPost {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: idempotency.Header, In: "header", Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(255)},
			Description: "Names the request, so that sending it again answers again and does nothing twice.",
		})
	}
	op.Responses["default"] = &huma.Response{
		Description: "A problem", Content: map[string]*huma.MediaType{
			problemContentType: {Schema: schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")},
		},
	}
	if c.raw != "" {
		op.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{
			Description: "The bytes", Content: map[string]*huma.MediaType{c.raw: {Schema: &huma.Schema{}}},
		}
	}
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := run(ctx, in)
		if err != nil {
			return nil, a.problemOf(ctx, err)
		}
		return out, nil
	})
	if c.also != 0 {
		same := *op.Responses[strconv.Itoa(c.status)]
		same.Description = c.alsoSays
		op.Responses[strconv.Itoa(c.also)] = &same
	}
}

func describe(c call) string {
	text := c.text
	if c.role != roleNone {
		text += fmt.Sprintf("\n\nRole: `%s`.", c.role)
	}
	if len(c.codes) > 0 {
		names := make([]string, len(c.codes))
		for i, code := range c.codes {
			names[i] = fmt.Sprintf("`%s` (%d)", code, meanings[code].status)
		}
		text += "\n\nRefusals of its own: " + strings.Join(names, ", ") + "."
	}
	return strings.TrimSpace(text)
}

// one is the answer that holds one object.
type one[T any] struct {
	Status int
	Body   T
}

// Page is one page of a list, newest first.
type Page[T any] struct {
	Data    []T  `json:"data"`
	HasMore bool `json:"has_more" doc:"Whether older items follow; ask with starting_after the last id"`
}

// list is the answer that holds a page.
type list[T any] struct{ Body Page[T] }

// byID names one object.
type byID struct {
	ID string `path:"id" maxLength:"512"`
}

// Paging holds the parameters of every list.
type Paging struct {
	Limit         int    `query:"limit" minimum:"1" maximum:"100" default:"25" doc:"Items on the page"`
	StartingAfter string `query:"starting_after" maxLength:"512" doc:"Id of the last item of the page before"`
}
