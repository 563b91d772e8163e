package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/provider"
)

// R9.1: nothing that is secret, and nothing of a payload, shows in logs,
// problems, lists or metrics, wherever it was put in.
func TestCanaries(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		const card, name, cvc = "4111111111111111", "Maria-Canaria", "cvc-737"
		made := text(h.post("/v1/tokens", `{"name":"ci","role":"admin"}`).ok(http.StatusCreated), "token")
		h.register("A", "pi_1")
		payload := captured("evt_1", "pi_1", 4800)
		h.receiveRaw(payload, []byte(fmt.Sprintf(`{"card":%q,"holder":%q,"code":%q`, card, name, cvc)))
		h.receiveRaw(provider.Event{Identity: "evt_2"}, []byte(card))

		var seen strings.Builder
		keep := func(a *answer) {
			fmt.Fprintln(&seen, a.call[:strings.IndexByte(a.call, ' ')], a.status, a.header, string(a.body))
		}
		for _, path := range []string{"/v1/payments", "/v1/orders", "/v1/events", "/v1/messages", "/v1/exceptions", "/v1/audit", "/v1/tokens", "/v1/destinations", "/metrics", "/openapi.json", "/readyz?verbose"} {
			keep(h.get(path))
		}
		for _, id := range column(h.get("/v1/events").items(http.StatusOK), "id") {
			keep(h.get("/v1/events/" + id))
			keep(h.post("/v1/events/"+id+"/redrive", `{"reason":""}`))
		}
		// The same in every place of a request where it does not belong.
		for _, bad := range []string{card, name, cvc, made, adminToken} {
			keep(h.get("/v1/payments?state=" + bad))
			keep(h.get("/v1/payments?" + bad + "=1"))
			keep(h.get("/v1/payments?limit=" + bad))
			keep(h.get("/" + bad))
			keep(h.get("/v1/payments/" + bad))
			keep(h.post("/v1/payments", `{"`+bad+`":1}`))
			keep(h.post("/v1/payments", `{"order":{"`+bad+`":1}}`))
			keep(h.post("/v1/payments", `{"amount":"`+bad+`"}`))
			keep(h.post("/v1/payments", `{"amount":{"value":1,"currency":"`+bad+`"}}`))
			keep(h.post("/v1/payments", `{"amount":{"value":1,"currency":"EUR","`+bad+`":2}}`))
			keep(h.post("/v1/payments", `{"order":"x","account":"`+bad+`","amount":{"value":1,"currency":"EUR"}}`))
			keep(h.post("/v1/payments", `{"order":"`+bad+`","order":"`+bad+`"}`))
			keep(h.post("/v1/payments", bad))
			keep(h.post("/v1/tokens", `{"name":"`+bad+` ","role":"`+bad+`"}`))
			keep(h.post("/v1/tokens", `{"name":"x","role":"`+bad+`"}`))
			keep(h.ask(http.MethodPost, "/v1/payments", "{}", key(bad+" "+bad)))
			keep(h.ask(http.MethodGet, "/v1/payments", "", as(bad+"x")))
			keep(h.ask(http.MethodGet, "/v1/payments", "", hosted(strings.ToLower(bad)+".example")))
			keep(h.ask(http.MethodGet, "/v1/payments", "", with("Origin", "https://"+bad)))
			keep(h.ask(http.MethodGet, "/v1/payments", "", with("Cookie", bad)))
			keep(h.ask(http.MethodPost, "/v1/payments", "{}", with("Content-Type", bad)))
		}
		for where, text := range map[string]string{"answers": seen.String(), "logs": h.logs.String()} {
			for _, canary := range []string{
				card, name, cvc, made, readToken, operateToken, approveToken, adminToken, destinationSecret, destinationPath,
			} {
				if i := strings.Index(text, canary); i >= 0 {
					t.Errorf("%s show %q: …%s…", where, canary, text[max(0, i-300):min(len(text), i+200)])
				}
			}
		}
		if !strings.Contains(h.logs.String(), `"actor":"chief"`) || !strings.Contains(h.logs.String(), `"msg":"request"`) {
			t.Fatal("the log lacks identities and results")
		}
	})
}

// The actor is the credential, whatever the request says.
func TestActorIsTheCredential(t *testing.T) {
	h := onSQLite(t)
	for _, header := range []string{"X-Actor", "X-User", "X-Forwarded-User"} {
		h.ask(http.MethodPost, "/v1/payments", registration, as(operateToken), with(header, "boss"))
	}
	rows := h.get("/v1/audit?action=payment.registered").items(http.StatusOK)
	expect(t, "actor", column(rows, "actor"), []string{"operator"})
	h.post("/v1/payments", strings.Replace(registration, "{", `{"actor":"boss",`, 1)).refused(httpapi.CodeInvalid, http.StatusBadRequest)
}
