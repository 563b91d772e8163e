package httpapi_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/httpapi"
)

var update = flag.Bool("update", false, "write the pages of the codes anew")

const docs = "../docs"

// The document in the repository is the one that is served.
func TestDocumentIsCurrent(t *testing.T) {
	written, err := os.ReadFile(filepath.Join(docs, "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	if served := string(onSQLite(t).get("/openapi.json").body); served != string(written) {
		t.Fatal("docs/openapi.json is not what is served, run make generate")
	}
}

// The document follows OpenAPI 3.1 where tools depend on it: every reference
// leads somewhere, every operation has its own id, its parameters and answers,
// and the schemas use JSON Schema's own words and types.
func TestDocumentIsValid(t *testing.T) {
	doc := onSQLite(t).get("/openapi.json").ok(http.StatusOK)
	if !regexp.MustCompile(`^3\.1\.\d+$`).MatchString(text(doc, "openapi")) {
		t.Fatalf("openapi is %v", doc["openapi"])
	}
	info := doc["info"].(map[string]any)
	if text(info, "title") == "" || text(info, "version") == "" {
		t.Fatalf("info is %v", info)
	}
	walk(t, doc, doc, "#")
	ids := map[string]bool{}
	for path, item := range doc["paths"].(map[string]any) {
		if !strings.HasPrefix(path, "/") {
			t.Errorf("path %q", path)
		}
		for method, raw := range item.(map[string]any) {
			if method != "get" && method != "post" {
				t.Errorf("%s: method %s", path, method)
			}
			op := raw.(map[string]any)
			if id := text(op, "operationId"); id == "" || ids[id] {
				t.Errorf("%s %s: operationId %q is missing or used twice", method, path, id)
			}
			ids[text(op, "operationId")] = true
			operation(t, doc, method+" "+path, path, op)
		}
	}
	if len(ids) < 30 {
		t.Fatalf("%d operations", len(ids))
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	for name := range schemas {
		if !regexp.MustCompile(`^[a-zA-Z0-9._-]+$`).MatchString(name) {
			t.Errorf("schema name %q", name)
		}
	}
}

func operation(t *testing.T, doc map[string]any, where, path string, op map[string]any) {
	t.Helper()
	inPath := map[string]bool{}
	params, _ := op["parameters"].([]any)
	seen := map[string]bool{}
	for _, raw := range params {
		p := raw.(map[string]any)
		at := text(p, "in") + " " + text(p, "name")
		if seen[at] || !slices.Contains([]string{"path", "query", "header"}, text(p, "in")) || p["schema"] == nil {
			t.Errorf("%s: parameter %s", where, at)
		}
		seen[at] = true
		if text(p, "in") == "path" {
			inPath[text(p, "name")] = p["required"] == true
		}
	}
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		if !inPath[m[1]] {
			t.Errorf("%s: %s is no required path parameter", where, m[1])
		}
	}
	responses := op["responses"].(map[string]any)
	if len(responses) == 0 {
		t.Errorf("%s: no answers", where)
	}
	for status, raw := range responses {
		r := raw.(map[string]any)
		if !regexp.MustCompile(`^([1-5]\d\d|default)$`).MatchString(status) || text(r, "description") == "" {
			t.Errorf("%s: answer %s", where, status)
		}
	}
	if _, secured := op["security"]; secured != (strings.HasPrefix(path, "/v1/") || path == "/metrics") {
		t.Errorf("%s: secured is %t", where, secured)
	}
}

// schemaWords are the members of a schema that the document may use.
var schemaWords = []string{
	"$ref", "type", "format", "description", "enum", "properties", "required", "additionalProperties", "items", "minimum", "maximum",
	"minLength", "maxLength", "minItems", "maxItems", "pattern", "default",
}

// walk checks every reference and every schema.
func walk(t *testing.T, doc map[string]any, v any, at string) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			walk(t, doc, item, fmt.Sprint(at, "/", i))
		}
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/components/schemas/")
			if doc["components"].(map[string]any)["schemas"].(map[string]any)[name] == nil {
				t.Errorf("%s: %s leads nowhere", at, ref)
			}
		}
		for name, member := range v {
			if s, ok := member.(map[string]any); ok && (name == "schema" || name == "items") {
				schema(t, s, at+"/"+name)
			}
			walk(t, doc, member, at+"/"+name)
		}
	}
}

func schema(t *testing.T, s map[string]any, at string) {
	t.Helper()
	for _, word := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(schemaWords, word) {
			t.Errorf("%s: %q is no word of a schema here", at, word)
		}
	}
	kind, given := s["type"]
	if given && !slices.Contains([]string{"string", "integer", "number", "boolean", "array", "object"}, fmt.Sprint(kind)) {
		t.Errorf("%s: type %v", at, kind)
	}
}

// Every code has a page in the repository, which is also served, and there is
// no page without a code.
func TestPagesOfCodes(t *testing.T) {
	h := onSQLite(t)
	var want []string
	for _, code := range httpapi.Codes() {
		page, ok := code.Page()
		if !ok || !strings.Contains(page, "`"+string(code)+"`") {
			t.Fatalf("%s has no page", code)
		}
		name := filepath.Join(docs, "problems", string(code)+".md")
		if *update {
			if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		written, err := os.ReadFile(name)
		if err != nil || string(written) != page {
			t.Errorf("%s is not current (%v), run go test ./httpapi -run PagesOfCodes -update", name, err)
		}
		a := h.ask(http.MethodGet, "/problems/"+string(code), "", without("Authorization"))
		if a.status != http.StatusOK || string(a.body) != page {
			t.Errorf("/problems/%s: %d %s", code, a.status, a.body)
		}
		want = append(want, string(code)+".md")
	}
	entries, err := os.ReadDir(filepath.Join(docs, "problems"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	expect(t, "pages", got, want)
	h.get("/problems/none").refused(httpapi.CodeNotFound, http.StatusNotFound)
}

// What is answered fits the document: no member that it does not know, and all
// that it requires.
func TestAnswersFitTheDocument(t *testing.T) {
	h := onSQLite(t)
	p := text(h.register("A", "pi_1"), "id")
	h.register("A", "pi_2")
	event := h.receive(captured("evt_1", "pi_1", 4800), captured("evt_2", "pi_2", 4800))[0]
	h.post("/v1/tokens", `{"name":"x","role":"read"}`)
	message := text(h.get("/v1/messages?type=order.fulfill").items(http.StatusOK)[0], "id")
	h.stop(message)
	exception := text(h.get("/v1/exceptions").items(http.StatusOK)[0], "id")
	doc := h.get("/openapi.json").ok(http.StatusOK)
	for path, template := range map[string]string{
		"/v1/payments": "", "/v1/payments/" + p: "/v1/payments/{id}", "/v1/payments/" + p + "/timeline": "/v1/payments/{id}/timeline",
		"/v1/orders": "", "/v1/orders/A": "/v1/orders/{id}", "/v1/events": "", "/v1/events/" + event: "/v1/events/{id}", "/v1/messages": "",
		"/v1/messages/" + message: "/v1/messages/{id}", "/v1/destinations": "", "/v1/exceptions": "",
		"/v1/exceptions/" + exception: "/v1/exceptions/{id}", "/v1/audit": "", "/v1/audit/verify?subject=" + p: "/v1/audit/verify",
		"/v1/search?q=A": "/v1/search", "/v1/tokens": "",
	} {
		if template == "" {
			template = path
		}
		content := doc["paths"].(map[string]any)[template].(map[string]any)["get"].(map[string]any)["responses"].(map[string]any)["200"].(map[string]any)["content"]
		s := content.(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
		var v any
		if err := json.Unmarshal(h.get(path).body, &v); err != nil {
			t.Fatal(err)
		}
		fits(t, doc, s, v, path)
	}
	problem := doc["components"].(map[string]any)["schemas"].(map[string]any)["Problem"].(map[string]any)
	fits(t, doc, problem, map[string]any(h.post("/v1/payments", "{}").refused(httpapi.CodeInvalid, http.StatusBadRequest)), "problem")
}

// fits compares a value with a schema, as far as the document uses schemas.
func fits(t *testing.T, doc, s map[string]any, v any, at string) {
	t.Helper()
	if ref, ok := s["$ref"].(string); ok {
		s = doc["components"].(map[string]any)["schemas"].(map[string]any)[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		t.Errorf("%s: %v is none of %v", at, v, enum)
	}
	kinds := map[string]bool{}
	switch v := v.(type) {
	case map[string]any:
		kinds["object"] = true
		properties, _ := s["properties"].(map[string]any)
		for name, member := range v {
			if property, ok := properties[name].(map[string]any); ok {
				fits(t, doc, property, member, at+"/"+name)
			} else if properties != nil {
				t.Errorf("%s: the document does not know %s", at, name)
			}
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				t.Errorf("%s: lacks %v", at, name)
			}
		}
	case []any:
		kinds["array"] = true
		for i, item := range v {
			if items, ok := s["items"].(map[string]any); ok {
				fits(t, doc, items, item, fmt.Sprint(at, "/", i))
			}
		}
	case string:
		kinds["string"] = true
	case float64:
		kinds["number"], kinds["integer"] = true, v == float64(int64(v))
	case bool:
		kinds["boolean"] = true
	}
	if kind, ok := s["type"].(string); ok && !kinds[kind] {
		t.Errorf("%s: %v is no %s", at, v, kind)
	}
}
