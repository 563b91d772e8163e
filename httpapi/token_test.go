package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/store"
)

func TestTokens(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		made := h.ask(http.MethodPost, "/v1/tokens", `{"name":"ci","role":"operate"}`, key("make-ci"))
		v := made.ok(http.StatusCreated)
		secret, id := text(v, "token"), text(v, "id")
		if !strings.HasPrefix(secret, "uvz_") || len(secret) < 40 {
			t.Fatalf("token %q", secret)
		}
		h.ask(http.MethodPost, "/v1/payments", `{}`, as(secret)).refused(httpapi.CodeInvalid, http.StatusBadRequest)
		h.ask(http.MethodGet, "/v1/tokens", "", as(secret)).refused(httpapi.CodeForbidden, http.StatusForbidden)

		// A replay is the same answer without the token, which is kept nowhere.
		again := h.ask(http.MethodPost, "/v1/tokens", `{"role":"operate","name":"ci"}`, key("make-ci"))
		replayed := again.ok(http.StatusCreated)
		expect(t, "replayed", again.header.Get("Idempotent-Replayed"), "true")
		expect(t, "id", replayed["id"], id)
		expect(t, "token", replayed["token"], nil)
		list := h.get("/v1/tokens")
		if strings.Contains(string(list.body), secret) || strings.Contains(string(list.body), "hash") {
			t.Fatalf("the list tells the token: %s", list.body)
		}
		expect(t, "names", column(list.items(http.StatusOK), "name"), []string{"ci"})

		h.post("/v1/tokens", `{"name":"ci","role":"read"}`).refused(httpapi.CodeTokenExists, http.StatusConflict)
		h.post("/v1/tokens", `{"name":"chief","role":"read"}`).refused(httpapi.CodeTokenExists, http.StatusConflict)
		for body, pointer := range map[string]string{
			`{"role":"read"}`: "/name", `{"name":"a b","role":"read"}`: "/name", `{"name":"system","role":"read"}`: "/name",
			`{"name":"x","role":"owner"}`: "/role", `{"name":"x"}`: "/role", `{"name":"x","role":"read","token":"mine"}`: "/token",
		} {
			expect(t, body, pointers(h.post("/v1/tokens", body).refused(httpapi.CodeInvalid, http.StatusBadRequest)), []string{pointer})
		}

		h.post("/v1/tokens/tok_none/revoke", `{"reason":"x"}`).refused(httpapi.CodeNotFound, http.StatusNotFound)
		revoked := h.post("/v1/tokens/"+id+"/revoke", `{"reason":"left"}`).ok(http.StatusOK)
		h.ask(http.MethodGet, "/v1/payments", "", as(secret)).refused(httpapi.CodeUnauthenticated, http.StatusUnauthorized)
		expect(t, "again", h.post("/v1/tokens/"+id+"/revoke", `{"reason":"left"}`).ok(http.StatusOK)["revoked_at"], revoked["revoked_at"])
		h.post("/v1/tokens", `{"name":"ci","role":"read"}`).ok(http.StatusCreated)
		actions := column(h.get("/v1/audit?subject=tokens").items(http.StatusOK), "action")
		expect(t, "audited", actions, []string{"token.created", "token.revoked", "token.created"})
	})
}

// Of two requests for one name at once, one gets it.
func TestTokenNamesAreUnique(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		const n = 6
		statuses := make([]int, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { statuses[i] = h.ask(http.MethodPost, "/v1/tokens", `{"name":"one","role":"read"}`).status })
		}
		all.Wait()
		slices.Sort(statuses)
		expect(t, "statuses", statuses, []int{201, 409, 409, 409, 409, 409})
	})
}

// The use of a token is noted at most once a minute.
func TestLastUsed(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		secret := text(h.post("/v1/tokens", `{"name":"ci","role":"read"}`).ok(http.StatusCreated), "token")
		used := func() string { return text(h.get("/v1/tokens").items(http.StatusOK)[0], "last_used_at") }
		expect(t, "before", used(), "")
		h.ask(http.MethodGet, "/v1/payments", "", as(secret))
		first := used()
		for range 5 {
			h.ask(http.MethodGet, "/v1/payments", "", as(secret))
		}
		if first == "" || used() != first {
			t.Fatalf("last used %q, then %q", first, used())
		}
		h.advance(time.Minute)
		h.ask(http.MethodGet, "/v1/payments", "", as(secret))
		if used() == first {
			t.Fatal("a later use is not noted")
		}
	})
}

func ensure(t *testing.T, h *house, path string, configured []httpapi.Token) bool {
	t.Helper()
	made, err := httpapi.EnsureAdminToken(t.Context(), h.store, path, configured, h.clock())
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// The first start writes a token that opens everything, to a file of its owner.
func TestAdminToken(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		path := filepath.Join(t.TempDir(), "a[d]min")
		expect(t, "with a configured token", ensure(t, h, path, []httpapi.Token{{Name: "x"}}), false)
		expect(t, "first start", ensure(t, h, path, nil), true)
		expect(t, "second start", ensure(t, h, path, nil), false)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("mode %v, %v, want 0600", info.Mode(), err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tokens := h.ask(http.MethodGet, "/v1/tokens", "", as(strings.TrimSpace(string(raw)))).items(http.StatusOK)
		expect(t, "role", column(tokens, "role"), []string{"admin"})
		expect(t, "files", len(files(t, path)), 1)

		// When the last token is revoked, the next start lets somebody in again.
		h.post("/v1/tokens/"+text(tokens[0], "id")+"/revoke", `{"reason":"lost"}`).ok(http.StatusOK)
		expect(t, "after the last is revoked", ensure(t, h, path, nil), true)
	})
}

func files(t *testing.T, path string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// Of several processes that start at once one makes the token, and the file has it.
func TestAdminTokenOfManyStarts(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		path := filepath.Join(t.TempDir(), "admin")
		var all sync.WaitGroup
		made := make([]bool, 6)
		for i := range made {
			all.Go(func() { made[i], _ = httpapi.EnsureAdminToken(context.Background(), h.store, path, nil, h.clock()) })
		}
		all.Wait()
		n := 0
		for _, m := range made {
			if m {
				n++
			}
		}
		raw, err := os.ReadFile(path)
		if err != nil || n < 1 {
			t.Fatalf("%d made it, %v", n, err)
		}
		expect(t, "tokens", len(h.ask(http.MethodGet, "/v1/tokens", "", as(strings.TrimSpace(string(raw)))).items(http.StatusOK)), 1)
	})
}

// blocking puts a directory where the file belongs, once the token is stored.
type blocking struct {
	store.Store
	path string
}

func (b *blocking) InTx(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	return errors.Join(b.Store.InTx(ctx, opt, fn), os.Mkdir(b.path, 0o700))
}

// A crash between the token's commit and its file is mended by the next start.
func TestAdminTokenAfterCrash(t *testing.T) {
	h := onSQLite(t)
	path := filepath.Join(t.TempDir(), "admin")
	if _, err := httpapi.EnsureAdminToken(t.Context(), &blocking{h.store, path}, path, nil, h.clock()); err == nil {
		t.Fatal("the file was put in place over a directory")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect(t, "mended", ensure(t, h, path, nil), true)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h.ask(http.MethodGet, "/v1/tokens", "", as(strings.TrimSpace(string(raw)))).items(http.StatusOK)
}

func TestTokensOfTheConfiguration(t *testing.T) {
	h := onSQLite(t)
	for name, token := range map[string]httpapi.Token{
		"no role": {Name: "x", Secret: "y"}, "unknown role": {Name: "x", Secret: "y", Role: "owner"}, "no secret": {Name: "x", Role: "read"},
		"no name": {Secret: "y", Role: "read"},
	} {
		if _, err := httpapi.New(httpapi.Deps{Store: h.store, Applier: h.applier, Relay: h.relay, Tokens: []httpapi.Token{token}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
