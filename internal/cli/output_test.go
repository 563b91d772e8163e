package cli_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/unavez/unavez/internal/cli"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

// shop is a destination that takes everything.
func shop(t *testing.T, status int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(s.Close)
	return s.URL
}

func destination(url string) string {
	return "destinations: [{name: shop, url: \"" + url + "\", types: [\"*\"], secret: env:SHOP_SECRET, allow_private: true}]\n"
}

// deliver posts a signed body to the place's ingress.
func (p *place) deliver(body string) {
	p.t.Helper()
	url := "http://" + p.env["UNAVEZ_LISTEN_INGRESS"] + "/webhooks/stripe-es"
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Stripe-Signature", stripe.Sign([]byte(body), time.Now(), provider.Secret(webhookSecret)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("the delivery is answered with %d", resp.StatusCode)
	}
}

// leaves lists the commands that do something.
func leaves(c *cobra.Command) []string {
	if !c.HasSubCommands() {
		return []string{strings.TrimPrefix(c.CommandPath(), "unavez ")}
	}
	var list []string
	for _, sub := range c.Commands() {
		list = append(list, leaves(sub)...)
	}
	return list
}

// R9.4: every thing can be looked up, and a dead event redriven, by command; standard
// output of every command parses with -o json, and a command that is added
// has to be added here.
func TestEveryCommandPrintsJSON(t *testing.T) {
	p := newPlace(t, destination(shop(t, http.StatusNoContent)))
	p.serve()
	id := p.run(append(create, "48.00")...).exits(0).says("Next: unavez payments timeline pay_").first(`pay_[0-9a-z]+`)
	p.run("simulate", "stripe", "payment_intent.succeeded", "--order", "A-1", "--amount", "48.00", "--reference", "pi_1").exits(0)
	event := p.run("events", "list").exits(0).first(`evt_[0-9a-z]{20,}`)
	message := p.run("messages", "list").exits(0).first(`msg_[0-9a-z]+`)
	p.deliver(`{"id":"evt_bad","object":"event","type":"payment_intent.succeeded","livemode":false,"data":{"object":{"id":7}}}`)
	dead := p.run("events", "list", "--state", "dead").exits(0).first(`evt_[0-9a-z]{20,}`)
	exception := p.run("exceptions", "list").exits(0).first(`exc_[0-9a-z]+`)
	token := p.run("tokens", "create", "--name", "n", "--role", "read").exits(0).first(`tok_[0-9a-z]+`)

	commands := map[string][]string{
		"audit list": nil, "audit verify": {"--subject", id}, "config check": nil, "config show": nil, "doctor": nil,
		"destinations list": nil, "destinations pause": {"shop", "--reason", "x"}, "destinations resume": {"shop", "--reason", "x"},
		"destinations test": {"shop"}, "events get": {event}, "events list": nil, "events payload": {event},
		"events redrive": {dead, "--reason", "x"}, "exceptions get": {exception}, "exceptions list": nil, "healthcheck": nil,
		"messages get": {message}, "messages list": nil, "messages retry": {message, "--reason", "x"},
		"migrate plan": nil, "migrate status": nil, "migrate up": nil, "orders fulfilled": {"A-1"}, "orders get": {"A-1"}, "orders list": nil,
		"payments create": append(slices.Clone(create[2:]), "48.00"), "payments get": {id}, "payments list": nil, "payments timeline": {id},
		"providers contract": {"stripe"}, "providers list": nil, "search": {"pi_1"},
		"simulate":      {"stripe", "charge.refunded", "--order", "A-1", "--amount", "48.00", "--reference", "pi_1"},
		"tokens create": {"--name", "m", "--role", "read"}, "tokens list": nil, "tokens revoke": {token, "--reason", "x"}, "version": nil,
	}
	elsewhere := []string{ // run until they are stopped, or print scripts and prose; they have tests of their own
		"demo", "serve", "simulator", "events tail", "completion bash", "completion zsh", "completion fish", "completion powershell", "help", "exit-codes",
	}
	for _, name := range leaves(cli.Root()) {
		args, here := commands[name]
		if slices.Contains(elsewhere, name) {
			continue
		}
		if !here {
			t.Errorf("unavez %s: not tried with -o json", name)
			continue
		}
		code := 0
		if name == "doctor" {
			code = 1 // it finds the dead event
		}
		for _, format := range []string{"json", "jsonl"} {
			args := slices.Clone(args)
			if i := slices.Index(args, "--name"); i >= 0 {
				args[i+1] += format
			}
			r := p.run(slices.Concat(strings.Fields(name), args, []string{"-o", format})...).exits(code).parses(format)
			if strings.Contains(r.err, "Next:") {
				t.Errorf("%s: gives hints to a script: %s", r.command, r.err)
			}
		}
		if name == "tokens revoke" || name == "tokens create" {
			continue
		}
		if r := p.run(append(strings.Fields(name), args...)...).exits(code); strings.Contains(r.out, "Next:") {
			t.Errorf("%s: talk on standard output: %s", r.command, r.out)
		}
	}
	// A dry run changes nothing; --yes does.
	p.run("events", "get", dead).prints(`"state": "dead"`)
	p.run("events", "redrive", dead, "--reason", "mended").exits(0).says("Dry run", "--yes")
	p.run("audit", "list", "--subject", dead, "-o", "jsonl").exits(0).lacks("event.redriven")
	p.run("events", "redrive", dead, "--reason", "mended", "--yes").exits(0).says("Next: unavez events get " + dead)
	p.run("audit", "list", "--subject", dead, "-o", "jsonl").exits(0).prints("mended", `"actor":"boss"`)
}

func (r result) lacks(words ...string) result {
	r.t.Helper()
	for _, w := range words {
		if strings.Contains(r.out+r.err, w) {
			r.t.Errorf("%s: says %q:\n%s%s", r.command, w, r.out, r.err)
		}
	}
	return r
}

// A message that is dead is sent again under its own id, and only with --yes.
func TestRetryOfAMessage(t *testing.T) {
	p := newPlace(t, destination(shop(t, http.StatusGone)))
	p.serve()
	p.run(append(create, "48.00")...).exits(0)
	p.run("simulate", "stripe", "payment_intent.succeeded", "--order", "A-1", "--amount", "48.00", "--reference", "pi_1").exits(0)
	message := p.until(`msg_[0-9a-z]+`, "messages", "list", "--state", "dead")
	p.run("messages", "retry", message, "--reason", "shop mended").exits(0).says("Dry run", "--yes")
	p.run("messages", "get", message).exits(0).prints(`"state": "dead"`)
	p.run("messages", "retry", message, "--reason", "shop mended", "--yes").exits(0).says("Next: unavez messages get " + message)
	p.run("audit", "list", "--subject", message, "-o", "jsonl").exits(0).prints("shop mended")
}

// until repeats a command until its output has the pattern.
func (p *place) until(pattern string, args ...string) string {
	p.t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		if m := p.run(args...).exits(0).match(pattern); m != "" {
			return m
		}
		select {
		case <-limit.C:
			p.t.Fatalf("unavez %s never prints %s", strings.Join(args, " "), pattern)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Tables show amounts exactly, in major units.
func TestTables(t *testing.T) {
	p := newPlace(t, "")
	p.serve()
	p.run("payments", "create", "--order", "A-1", "--account", "stripe-es", "--currency", "JPY", "--amount", "480", "--reference", "pi_1").exits(0)
	p.run("payments", "create", "--order", "A-2", "--account", "stripe-es", "--currency", "BHD", "--amount", "9007199254740.993", "--reference", "pi_2").exits(0)
	p.run("payments", "list").exits(0).prints("9007199254740.993 BHD", "480 JPY")
	if r := p.run("payments", "list", "--limit", "1"); strings.Count(r.out, "pay_") != 1 {
		t.Errorf("--limit 1 gives:\n%s", r.out)
	}
}
