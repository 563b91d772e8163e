package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// posted is what an ingress was sent.
type posted struct {
	Type    string `json:"type"`
	Created int64  `json:"created"`
	Data    struct {
		Object struct {
			Metadata map[string]string `json:"metadata"`
		} `json:"object"`
	} `json:"data"`
}

// ingress stands for the server's edge: it answers with the statuses in turn,
// and keeps what it was sent.
func ingress(t *testing.T, p *place, statuses ...int) func() []posted {
	t.Helper()
	var mu sync.Mutex
	var got []posted
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		raw, err := io.ReadAll(r.Body)
		var e posted
		if err != nil || json.Unmarshal(raw, &e) != nil {
			t.Errorf("got %q, which is no event (%v)", raw, err)
		}
		w.WriteHeader(statuses[len(got)%len(statuses)])
		got = append(got, e)
	}))
	t.Cleanup(srv.Close)
	p.env["UNAVEZ_LISTEN_INGRESS"] = strings.TrimPrefix(srv.URL, "http://")
	return func() []posted {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// Some refused is done in part, all refused is failed.
func TestSimulateDoneInPart(t *testing.T) {
	p := newPlace(t, "")
	ingress(t, p, http.StatusOK, http.StatusBadRequest)
	p.run("simulate", "stripe", "payment_intent.succeeded", "--repeat", "3").exits(6).says("1 of 3")
	ingress(t, p, http.StatusBadRequest)
	p.run("simulate", "stripe", "payment_intent.succeeded", "--repeat", "3", "-o", "json").exits(1).says("3 of 3", `"code":"failed"`)
	ingress(t, p, http.StatusOK)
	p.run("simulate", "stripe", "payment_intent.succeeded", "--fault", "bad-signature").exits(1).says("were taken")
}

// Out of order posts the later event first, with the times at which they
// happened; an order's id may hold anything.
func TestSimulateOutOfOrder(t *testing.T) {
	const order = "A-\"1\"\x01é"
	for event, want := range map[string][]string{
		"charge.refunded":          {"charge.refunded", "payment_intent.succeeded"},
		"payment_intent.succeeded": {"payment_intent.succeeded", "payment_intent.payment_failed"},
	} {
		p := newPlace(t, "")
		got := ingress(t, p, http.StatusOK)
		p.run("simulate", "stripe", event, "--order", order, "--fault", "out-of-order").exits(0)
		var types []string
		for _, e := range got() {
			types = append(types, e.Type)
			if e.Data.Object.Metadata["order_id"] != order {
				t.Errorf("%s: the metadata are %q", e.Type, e.Data.Object.Metadata)
			}
		}
		if !slices.Equal(types, want) || got()[0].Created <= got()[1].Created {
			t.Errorf("%s out of order posts %+v", event, got())
		}
	}
	p := newPlace(t, "")
	ingress(t, p, http.StatusOK)
	p.run("simulate", "stripe", "payment_intent.payment_failed", "--fault", "out-of-order").exits(2).says("nothing comes before")
	p.run("simulate", "stripe", "payment_intent.frobbed").exits(3)
	p.run("simulate", "stripe", "payment_intent.succeeded", "--fault", "earthquake").exits(2)
}

// R9.4: what has stopped is found by the doctor, with the command that shows it.
func TestDoctorFindsWhatHasStopped(t *testing.T) {
	p := newPlace(t, destination(shop(t, http.StatusNoContent)))
	p.serve()
	p.run("simulate", "stripe", "payment_intent.succeeded", "--order", "A-9", "--reference", "pi_9").exits(0)
	p.until(`evt_`, "events", "list", "--state", "waiting")
	p.run("doctor").exits(0).prints("1 event waits", "unavez events list --state waiting", "none dead")

	p.deliver(`{"id":"evt_bad","object":"event","type":"payment_intent.succeeded","livemode":false,"data":{"object":{"id":7}}}`)
	p.until(`evt_bad`, "events", "list", "--state", "dead")
	p.run("doctor").exits(1).prints("1 event is dead", "unavez events list --state dead")
	p.env["UNAVEZ_TOKEN"] = "not a token"
	p.run("doctor").exits(1).prints("api").says("1 thing needs attention")
}

// Looking makes no ledger where there is none.
func TestLookingMakesNoLedger(t *testing.T) {
	p := newPlace(t, "")
	p.env["UNAVEZ_DATABASE"] = p.folder + "/not-yet.db"
	p.run("migrate", "plan").exits(0).prints("CREATE TABLE")
	p.run("migrate", "status").exits(0).prints("false").lacks("true")
	p.run("doctor").exits(1).prints("does not exist yet")
	entries, err := os.ReadDir(p.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "not-yet") {
			t.Errorf("%s was made", e.Name())
		}
	}
}
