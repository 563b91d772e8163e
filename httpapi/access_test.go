package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/store"
)

// everyCall is each call with the role that it needs; roleless ones are open.
var everyCall = []struct{ method, path, role string }{
	{"POST", "/v1/payments", "operate"}, {"GET", "/v1/payments", "read"}, {"GET", "/v1/payments/x", "read"},
	{"GET", "/v1/payments/x/timeline", "read"}, {"GET", "/v1/orders", "read"}, {"GET", "/v1/orders/x", "read"},
	{"POST", "/v1/orders/x/fulfilled", "operate"}, {"GET", "/v1/events", "read"}, {"GET", "/v1/events/x", "read"},
	{"GET", "/v1/events/x/payload", "read"}, {"POST", "/v1/events/x/redrive", "operate"}, {"GET", "/v1/messages", "read"},
	{"GET", "/v1/messages/x", "read"}, {"POST", "/v1/messages/x/retry", "operate"}, {"GET", "/v1/destinations", "read"},
	{"POST", "/v1/destinations/x/pause", "operate"}, {"POST", "/v1/destinations/x/resume", "operate"},
	{"POST", "/v1/destinations/x/test", "operate"}, {"GET", "/v1/exceptions", "read"}, {"GET", "/v1/exceptions/x", "read"},
	{"GET", "/v1/audit", "read"}, {"GET", "/v1/audit/verify?subject=x", "read"}, {"GET", "/v1/search?q=x", "read"},
	{"GET", "/v1/tokens", "admin"}, {"POST", "/v1/tokens", "admin"}, {"POST", "/v1/tokens/x/revoke", "admin"},
	{"GET", "/metrics", "read"}, {"GET", "/readyz?verbose", "read"}, {"GET", "/v1/nothing", "read"}, {"PUT", "/v1/payments", "read"},
	{"GET", "/livez", ""}, {"GET", "/readyz", ""}, {"GET", "/version", ""}, {"GET", "/openapi.json", ""}, {"GET", "/problems/forbidden", ""},
}

var ladder = []struct{ role, token string }{
	{"", ""}, {"read", readToken}, {"operate", operateToken}, {"approve", approveToken}, {"admin", adminToken},
}

func step(role string) int {
	for i, l := range ladder {
		if l.role == role {
			return i
		}
	}
	panic("no such role: " + role)
}

// Each role may do what those below it may; nobody without a token may do
// anything but ask whether the server lives, on loopback neither.
func TestRoles(t *testing.T) {
	h := onSQLite(t)
	for _, c := range everyCall {
		for i, l := range ladder {
			t.Run(c.method+" "+c.path+" as "+l.role, func(t *testing.T) {
				h.t = t
				change := as(l.token)
				if l.token == "" {
					change = without("Authorization")
				}
				a := h.ask(c.method, c.path, "", change)
				switch {
				case i == 0 && c.role != "":
					a.refused(httpapi.CodeUnauthenticated, http.StatusUnauthorized)
					if a.header.Get("WWW-Authenticate") == "" {
						t.Fatal("401 without WWW-Authenticate")
					}
				case i < step(c.role):
					v := a.refused(httpapi.CodeForbidden, http.StatusForbidden)
					if !strings.Contains(text(v, "detail"), c.role) {
						t.Fatalf("the refusal does not name the role: %s", a.body)
					}
				case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
					t.Fatalf("refused: %s", a.body)
				}
			})
		}
	}
}

// The document and the table above speak of the same calls.
func TestEveryCallIsInTheMatrix(t *testing.T) {
	h := onSQLite(t)
	known := map[string]bool{}
	for _, c := range everyCall {
		path, _, _ := strings.Cut(c.path, "?")
		known[c.method+" "+path] = true
	}
	for path, item := range h.get("/openapi.json").ok(http.StatusOK)["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			path := strings.NewReplacer("{id}", "x", "{name}", "x", "{code}", "forbidden").Replace(path)
			if !known[strings.ToUpper(method)+" "+path] {
				t.Errorf("%s %s has no line in the role matrix", method, path)
			}
		}
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	h := onSQLite(t)
	for name, value := range map[string]string{
		"unknown": "Bearer nobody", "empty": "Bearer ", "scheme alone": "Bearer", "basic": "Basic " + adminToken, "bare": adminToken,
		"too long": "Bearer " + strings.Repeat("x", 1000), "with more": "Bearer " + adminToken + " x", "prefix": "Bearer " + adminToken[:8],
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			h.ask(http.MethodGet, "/v1/payments", "", with("Authorization", value)).refused(httpapi.CodeUnauthenticated, http.StatusUnauthorized)
		})
	}
	h.t = t
	h.ask(http.MethodGet, "/v1/payments", "", with("Authorization", "bearer "+readToken)).items(http.StatusOK)
	h.ask(http.MethodGet, "/v1/payments", "", func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+adminToken) }).
		refused(httpapi.CodeUnauthenticated, http.StatusUnauthorized)
	h.ask(http.MethodGet, "/v1/payments?token="+adminToken, "", without("Authorization")).refused(httpapi.CodeUnauthenticated, http.StatusUnauthorized)
}

// Refusals are logged, all of them, and audited at a bounded rate.
func TestRefusalsAreAudited(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		for range 50 {
			h.ask(http.MethodGet, "/v1/payments", "", as("wrong"))
		}
		h.ask(http.MethodPost, "/v1/payments", "", as(readToken))
		expect(t, "logged", strings.Count(h.logs.String(), `"msg":"access refused"`), 51)
		rows := h.get("/v1/audit?subject=access").items(http.StatusOK)
		expect(t, "audited", len(rows), 6)
		expect(t, "actor", rows[0]["actor"], "anonymous")
		expect(t, "action", rows[0]["action"], "access.refused")

		h.advance(time.Minute)
		h.ask(http.MethodPost, "/v1/tokens", "", as(readToken))
		rows = h.get("/v1/audit?subject=access&actor=reader").items(http.StatusOK)
		expect(t, "audited by name", len(rows), 1)
		expect(t, "detail", rows[0]["detail"], map[string]any{"code": "forbidden", "route": "POST /v1/tokens", "unwritten": 45.0})
		expect(t, "intact", h.get("/v1/audit/verify?subject=access").ok(http.StatusOK)["intact"], true)
	})
}

func TestHostAndOrigin(t *testing.T) {
	h := newHouse(t, openSQLite(t), func(d *httpapi.Deps) { d.Hosts = []string{"unavez.internal", "Other.Internal:9000"} })
	for name, ok := range map[string]bool{
		"127.0.0.1:8081": true, "localhost:8081": true, "localhost": true, "LOCALHOST.": true, "[::1]:8081": true, "unavez.internal": true,
		"unavez.internal:443": true, "other.internal": true, "evil.example": false, "127.0.0.1.evil.example": false, "": false,
		"10.1.2.3:8081": false, "localhost.evil.example": false,
	} {
		a := h.ask(http.MethodGet, "/v1/payments", "", hosted(name))
		if ok && a.status != http.StatusOK {
			t.Errorf("host %q: status %d, want 200", name, a.status)
		}
		if !ok {
			a.refused(httpapi.CodeForeignHost, http.StatusMisdirectedRequest)
		}
	}
	h.ask(http.MethodGet, "/version", "", hosted("evil.example")).refused(httpapi.CodeForeignHost, http.StatusMisdirectedRequest)
	expect(t, "a probe under any host", h.ask(http.MethodGet, "/livez", "", hosted("10.1.2.3")).status, 200)
	h.ask(http.MethodGet, "/readyz?verbose", "", hosted("10.1.2.3")).refused(httpapi.CodeForeignHost, http.StatusMisdirectedRequest)

	for _, origin := range []string{"https://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1:8081.evil.example"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			h.ask(method, "/v1/payments", "", with("Origin", origin)).refused(httpapi.CodeForeignOrigin, http.StatusForbidden)
		}
	}
	h.ask(http.MethodGet, "/v1/payments", "", with("Origin", "http://"+host)).items(http.StatusOK)
	h.ask(http.MethodPost, "/v1/payments", "", with("Sec-Fetch-Site", "cross-site")).refused(httpapi.CodeForeignOrigin, http.StatusForbidden)
	h.ask(http.MethodPost, "/v1/payments", "{}", with("Sec-Fetch-Site", "same-origin")).refused(httpapi.CodeInvalid, http.StatusBadRequest)
	for _, a := range []*answer{h.get("/v1/payments"), h.get("/livez")} {
		if a.header.Get("Access-Control-Allow-Origin") != "" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Fatalf("%s: headers %v", a.call, a.header)
		}
	}
}

// A listener on all addresses takes literal addresses, which nobody can make
// point elsewhere, and still no foreign name.
func TestHostOfListenerOnAllAddresses(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:8081", "[::]:8081", ":8081"} {
		h := newHouse(t, openSQLite(t), func(d *httpapi.Deps) { d.Listen = listen })
		h.ask(http.MethodGet, "/v1/payments", "", hosted("10.1.2.3:8081")).items(http.StatusOK)
		h.ask(http.MethodGet, "/v1/payments", "", hosted("evil.example:8081")).refused(httpapi.CodeForeignHost, http.StatusMisdirectedRequest)
	}
}

func TestAstray(t *testing.T) {
	h := onSQLite(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/v2/payments", "/v1/payments/a/b/c", "/metrics/x"} {
		h.get(path).refused(httpapi.CodeNotFound, http.StatusNotFound)
	}
	a := h.ask(http.MethodDelete, "/v1/payments", "")
	a.refused(httpapi.CodeMethodNotAllowed, http.StatusMethodNotAllowed)
	expect(t, "Allow", a.header.Get("Allow"), "GET, HEAD, POST")
}

// Parameters that do not exist are refused on every call, and what was typed
// into the wrong place is not repeated.
func TestParameters(t *testing.T) {
	h := onSQLite(t)
	for _, c := range everyCall {
		if c.role == "" || c.method != http.MethodGet || strings.Contains(c.path, "nothing") || c.path == "/metrics" {
			continue
		}
		sep := "?"
		if strings.Contains(c.path, "?") {
			sep = "&"
		}
		a := h.get(c.path + sep + "colour=4242424242424242")
		a.refused(httpapi.CodeUnknownParameter, http.StatusBadRequest)
		if strings.Contains(string(a.body), "4242") {
			t.Fatalf("the value is repeated: %s", a.body)
		}
	}
	for path, pointer := range map[string]string{
		"/v1/payments?limit=0": "limit", "/v1/payments?limit=101": "limit", "/v1/payments?limit=x": "limit", "/v1/payments?limit=1.5": "limit",
		"/v1/payments?state=paid": "state", "/v1/payments?state=captured&state=failed": "state", "/v1/payments?order=": "order",
		"/v1/payments?order=" + strings.Repeat("x", 600): "order", "/v1/search": "q", "/v1/events?source=4242424242424242": "source",
		"/v1/orders?starting_after=none": "starting_after", "/v1/audit/verify?subject=": "subject",
	} {
		a := h.get(path)
		v := a.refused(httpapi.CodeInvalid, http.StatusBadRequest)
		expect(t, path, pointers(v), []string{pointer})
		if strings.Contains(string(a.body), "4242") || strings.Contains(string(a.body), "paid") {
			t.Fatalf("%s: the value is repeated: %s", path, a.body)
		}
	}
	h.get("/v1/payments?order=%zz").refused(httpapi.CodeInvalid, http.StatusBadRequest)
	h.get("/v1/payments?4242424242424242=1").refused(httpapi.CodeUnknownParameter, http.StatusBadRequest)
	if a := h.get("/v1/payments?4242424242424242=1"); strings.Contains(string(a.body), "4242") {
		t.Fatalf("the name is repeated: %s", a.body)
	}
}

// A panic is an answer with the request's id, and its stack is in the log.
func TestPanic(t *testing.T) {
	h := newHouse(t, panicking{openSQLite(t)}, nil)
	v := h.get("/v1/payments").refused(httpapi.CodeInternal, http.StatusInternalServerError)
	if log := h.logs.String(); !strings.Contains(log, text(v, "request_id")) || !strings.Contains(log, "panicking.View") {
		t.Fatalf("the log lacks the request or the stack: %s", log)
	}
	if strings.Contains(text(v, "detail"), "boom") {
		t.Fatal("the panic's text is in the answer")
	}
}

type panicking struct{ store.Store }

func (panicking) View(context.Context, func(store.Reader) error) error { panic("boom") }

// The private server has limits like the public one.
func TestServerLimits(t *testing.T) {
	s := httpapi.NewServer("127.0.0.1:0", onSQLite(t).api)
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Fatalf("a limit is missing: %+v", s)
	}
	live := httptest.NewUnstartedServer(s.Handler)
	live.Config = s
	live.Start()
	defer live.Close()
	resp, err := http.Get(live.URL + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	expect(t, "status", fmt.Sprint(resp.StatusCode), "200")
}
