package httpapi_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/provider"
)

// An engine, its API and its server fit together: metrics are registered once,
// the configuration's tokens open it, and its accounts take payments.
func TestFromEngine(t *testing.T) {
	e, err := unavez.New(t.Context(), openSQLite(t), unavez.Config{
		Tokens: []unavez.Token{{Name: "ops", Role: "operate", Secret: operateToken}},
		Accounts: []unavez.Account{{
			Name: "stripe-es", Provider: "stripe", ProviderAccount: "acct_1", Mode: provider.Test, Secrets: []provider.Secret{"whsec_test"},
		}},
		Destinations: []unavez.Destination{{
			Name: shop, URL: "https://shop.example/hook", Types: []string{"*"}, Secret: destinationSecret,
		}},
	}, unavez.Options{})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.FromEngine(e, httpapi.Version{Version: "1"}))
	if err != nil {
		t.Fatal(err)
	}
	api.Start(t.Context())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpapi.NewServer(listener.Addr().String(), api)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		api.Drain()
		if err := server.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		api.Stop()
	})
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodGet, "/readyz", "", 200}, {http.MethodGet, "/metrics", "", 200}, {http.MethodGet, "/v1/destinations", "", 200},
		{http.MethodPost, "/v1/payments", `{"order":"1","account":"stripe-es","amount":{"value":1,"currency":"EUR"}}`, 201},
		{http.MethodGet, "/v1/tokens", "", 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+listener.Addr().String()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+operateToken)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, resp.StatusCode, c.status)
		}
	}
}
