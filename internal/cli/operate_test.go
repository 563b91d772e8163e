package cli_test

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// A plan prints the SQL and runs nothing; up applies it once.
func TestMigrate(t *testing.T) {
	p := newPlace(t, "")
	for range 2 {
		p.run("migrate", "plan").exits(0).prints("CREATE TABLE inbox", "CREATE TABLE audit")
	}
	p.run("migrate", "plan", "-o", "json").exits(0).parses("json").prints(`"applied": false`, `"sql"`)
	p.run("migrate", "status").exits(0).prints("false").lacks("CREATE TABLE")
	p.run("serve", "--migrate", "off").exits(1).says("schema")
	p.run("migrate", "up").exits(0).prints("true").says("Next: unavez migrate status")
	p.run("migrate", "status").exits(0).prints("true")
	p.run("migrate", "up").exits(0).says("current already")
	p.run("migrate", "plan").exits(0).says("up would do nothing").lacks("CREATE TABLE")
	p.serve("--migrate", "off")
	p.run("healthcheck").exits(0)
}

// A doctor who finds nothing exits with 0.
func TestDoctorOfAHealthyPlace(t *testing.T) {
	p := newPlace(t, destination(shop(t, http.StatusNoContent)))
	p.serve()
	r := p.run("doctor").exits(0).prints("configuration", "secrets", "clock", "destination shop", "unavez destinations test shop", "is ready").lacks("false")
	for _, finding := range []string{"synchronous", "schema"} {
		r.prints(finding)
	}
	delete(p.env, "UNAVEZ_SERVER") // the address of the configuration
	p.run("doctor", "-o", "jsonl").exits(0).parses("jsonl").lacks(`"ok":false`)
	p.run("healthcheck", "--server", "http://"+p.env["UNAVEZ_LISTEN_PRIVATE"]).exits(0).prints("ready")
}

// Each thing that is wrong is a finding, with the command that helps.
func TestDoctorOfASickPlace(t *testing.T) {
	p := newPlace(t, destination("http://"+closedAddress(t)))
	p.env["SHOP_SECRET"] = "short"
	p.env["UNAVEZ_LISTEN_PRIVATE"] = closedAddress(t)
	p.run("doctor").exits(1).prints("shorter than", "openssl rand", "unavez migrate up", "does not accept connections", "unavez serve").
		says("4 things need attention")
	r := p.run("doctor", "-o", "json").exits(1).parses("json")
	one(t, "the problem", r.err)
	p.env["UNAVEZ_DATABASE"] = "postgres://127.0.0.1:1/none"
	p.run("doctor").exits(1).prints("database")

	p.write("database: " + p.folder + "/unavez.db\n")
	delete(p.env, "UNAVEZ_DATABASE")
	p.run("doctor").exits(1).prints("nothing can be received")
}

// The server says where it is, serves, and ends softly on a first signal; a
// second one would end it at once.
func TestServe(t *testing.T) {
	p := newPlace(t, "")
	s := p.serve()
	p.run("healthcheck").exits(0)
	select {
	case <-s.second:
		t.Fatal("a first signal would not be heard")
	default:
	}
	if code := s.interrupt(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.err)
	}
	select {
	case <-s.second:
	default:
		t.Error("a second signal would be heard as well")
	}
	p.run("healthcheck").exits(1).says("no answer")
	if s.out.String() != "" {
		t.Errorf("standard output is %q", s.out)
	}
}

// What the server cannot have is said at the start.
func TestServeRefuses(t *testing.T) {
	p := newPlace(t, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range []string{"UNAVEZ_LISTEN_INGRESS", "UNAVEZ_LISTEN_PRIVATE"} {
		p.env[name] = l.Addr().String()
		p.run("serve").exits(1).says(l.Addr().String(), "in use")
		delete(p.env, name)
	}
	p.env["UNAVEZ_DATABASE"] = "/nowhere/at/all/unavez.db"
	p.run("serve").exits(1).says("/nowhere/at/all")
}

// The first start without any token writes one that only its owner reads, and
// client commands find it in the working directory.
func TestAdminToken(t *testing.T) {
	p := newPlace(t, "")
	t.Chdir(p.folder)
	delete(p.env, "UNAVEZ_TOKEN")
	p.write("database: unavez.db\nlisten: {ingress: \"127.0.0.1:0\", private: \"127.0.0.1:0\"}\nlog: {level: error}\n")
	s := p.serve()
	s.err.await(t, `admin token was written to (\S+);`, s.ended)
	s.err.await(t, `No account is configured`, s.ended)
	info, err := os.Stat("unavez-admin-token")
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file has the mode %s", info.Mode())
	}
	p.run("tokens", "list").exits(0).prints("admin")
	p.env["UNAVEZ_TOKEN_FILE"] = "unavez-admin-token"
	p.run("tokens", "list").exits(0)
	token, err := os.ReadFile("unavez-admin-token")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.err.String(), strings.TrimSpace(string(token))) {
		t.Error("the server prints the token")
	}
}

// simulate posts what the provider would, with each fault.
func TestSimulate(t *testing.T) {
	p := newPlace(t, "")
	p.run("simulate", "stripe", "payment_intent.succeeded").exits(1).says("no answer", "unavez serve")
	p.serve()
	p.run(append(create, "48.00")...).exits(0)
	paid := []string{"simulate", "stripe", "payment_intent.succeeded", "--order", "A-1", "--amount", "48.00", "--reference", "pi_1"}
	p.run(append(paid, "--fault", "bad-signature", "--repeat", "2")...).exits(0).prints("400").lacks("200").says("refused")
	p.run("events", "list", "-o", "jsonl").exits(0).lacks("evt_")

	r := p.run(append(paid, "--fault", "duplicate")...).exits(0).says("Next: unavez events list --account stripe-es")
	if n := strings.Count(r.out, "200"); n != 2 {
		t.Errorf("%d deliveries are acknowledged, want 2:\n%s", n, r.out)
	}
	if list := p.run("events", "list", "-o", "jsonl").exits(0); strings.Count(list.out, "\n") != 1 {
		t.Errorf("a duplicate is an event of its own:\n%s", list.out)
	}
	p.run(append(paid, "--fault", "out-of-order", "--repeat", "3")...).exits(0).lacks("400")
	p.run("payments", "list", "--order", "A-1").exits(0).prints("captured", "48.00 EUR")
	p.run("simulate", "stripe", "payment_intent.payment_failed", "--order", "A-1", "--amount", "48.00", "--reference", "pi_1").exits(0)
	p.run("payments", "list", "--state", "captured").exits(0).prints("A-1")
	p.run("simulate", "stripe", "charge.refunded", "--order", "A-1", "--amount", "48.00", "--reference", "pi_1").exits(0)
	p.run("payments", "list", "--order", "A-1").exits(0).prints("refunded")
	p.run("payments", "timeline", p.run("payments", "list").first(`pay_[0-9a-z]+`)).exits(0).
		prints("payment.registered", "evidence", "charge.refunded", "boss")
}

// tail shows what comes after it has begun, one line each.
func TestTail(t *testing.T) {
	p := newPlace(t, "")
	p.serve()
	p.run("simulate", "stripe", "payment_intent.succeeded", "--reference", "pi_before").exits(0)
	before := p.run("events", "list").first(`evt_[0-9a-z]{20,}`)
	tail := p.start("events", "tail", "-o", "json")
	limit := time.NewTimer(within)
	defer limit.Stop()
	for tail.out.String() == "" { // its first look only learns what was there
		p.run("simulate", "stripe", "payment_intent.succeeded").exits(0)
		select {
		case <-tail.out.written:
		case code := <-tail.ended:
			t.Fatalf("ended with %d: %s", code, tail.err)
		case <-limit.C:
			t.Fatal("shows nothing")
		case <-time.After(50 * time.Millisecond):
		}
	}
	if code := tail.interrupt(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(tail.out.String()) {
		one(t, "a line", line)
		if strings.Contains(line, before) || seen[line] {
			t.Errorf("shows again: %s", line)
		}
		seen[line] = true
	}
}

// The simulator serves, and ends on a signal.
func TestSimulator(t *testing.T) {
	p := newPlace(t, "")
	s := p.start("simulator", "--listen", "127.0.0.1:0", "--secret-env", "WEBHOOK_SECRET", "--webhook", "http://"+closedAddress(t))
	books := s.err.await(t, `control (http://\S+/_simulator/books)`, s.ended)
	resp, err := http.Get(books)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the books answer %d", resp.StatusCode)
	}
	if code := s.interrupt(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
