package cli_test

import (
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

var create = []string{"payments", "create", "--order", "A-1", "--account", "stripe-es", "--currency", "EUR", "--reference", "pi_1", "--amount"}

// Each exit code, one by one.
func TestExitCodes(t *testing.T) {
	p := newPlace(t, "")
	p.serve()
	p.run(append(create, "48.00")...).exits(0)
	p.run(append(create, "48.00")...).exits(0).says("registered before")

	t.Run("1 failed", func(t *testing.T) {
		p.run("payments", "list", "--server", "http://"+closedAddress(t)).exits(1).says("is unavez serve running there")
		p.run("healthcheck", "--server", "http://"+closedAddress(t)).exits(1)
		p.run("payments", "list", "--token-file", "nowhere").exits(1).says("nowhere")
		p.run("config", "check", "--config", "nowhere.yaml").exits(1).says("nowhere.yaml")
	})
	t.Run("2 usage", func(t *testing.T) {
		for _, args := range [][]string{
			{"paymets"}, {"payments", "lst"}, {"completion", "tcsh"}, {"help", "nothing"}, {"payments", "list", "extra"},
			{"--frob"}, {"payments", "list", "--frob"}, {"payments", "list", "--limit", "x"}, {"payments", "list", "--limit", "-1"},
			{"payments", "list", "-o", "xml"}, {"version", "-o", ""}, {"payments", "get"}, {"payments", "create", "--order", "A-1"},
			append(create, "48.001"), append(create, "4,8"), {"tokens", "create", "--name", "x", "--role", "king"},
			{"events", "redrive", "evt_1"}, {"messages", "retry", "msg_1", "--yes"}, {"tokens", "revoke", "tok_1"},
			{"destinations", "pause", "shop", "--reason", " "}, {"serve", "--role", "king"}, {"serve", "--migrate", "maybe"},
			{"demo", "--payments", "0"}, {"demo", "--payments", "1000000"}, {"simulate", "stripe"}, {"payments", "list", "--server", "::"},
			{"simulate", "stripe", "payment_intent.succeeded", "--fault", "flood"},
			{"simulate", "stripe", "payment_intent.succeeded", "--repeat", "0"},
			{"simulate", "stripe", "payment_intent.succeeded", "--account", "nobody"},
			{"simulator", "--secret-env", "NOT_SET"}, {"payments", "list", "--state", "no such state"},
		} {
			p.run(args...).exits(2)
		}
		p.run("paymets", "list").exits(2).says("did you mean payments?", "unavez --help")
		p.run("payments", "lisst").exits(2).says("did you mean list?", "unavez payments --help")
	})
	t.Run("3 not found", func(t *testing.T) {
		for _, args := range [][]string{
			{"payments", "get", "pay_none"}, {"payments", "timeline", "pay_none"}, {"orders", "get", "none"}, {"orders", "fulfilled", "none"},
			{"events", "get", "evt_none"}, {"events", "payload", "evt_none"}, {"events", "redrive", "evt_none", "--reason", "x", "--yes"},
			{"messages", "get", "msg_none"}, {"messages", "retry", "msg_none", "--reason", "x", "--yes"}, {"exceptions", "get", "exc_none"},
			{"destinations", "test", "none"}, {"tokens", "revoke", "tok_none", "--reason", "x"}, {"search", "none"},
			{"providers", "contract", "none"}, {"simulate", "none", "x"}, {"simulate", "stripe", "none"}, {"demo", "--provider", "none"},
			{"audit", "verify", "--subject", "pay_none"},
		} {
			p.run(args...).exits(3)
		}
	})
	t.Run("4 not permitted", func(t *testing.T) {
		defer func() { p.env["UNAVEZ_TOKEN"] = adminSecret }()
		p.env["UNAVEZ_TOKEN"] = readSecret
		p.run("payments", "list").exits(0)
		p.run(append(create, "48.00")...).exits(4)
		p.run("tokens", "list").exits(4)
		p.env["UNAVEZ_TOKEN"] = "wrong"
		p.run("payments", "list").exits(4)
		t.Chdir(t.TempDir())
		delete(p.env, "UNAVEZ_TOKEN")
		p.run("payments", "list").exits(4).says("UNAVEZ_TOKEN", "--token-file")
	})
	t.Run("5 conflict", func(t *testing.T) {
		p.run(append(create, "49.00")...).exits(5).says("amount")
		p.run("simulate", "stripe", "payment_intent.succeeded", "--order", "A-1", "--amount", "48.00", "--reference", "pi_1").exits(0)
		event := p.run("events", "list").exits(0).first(`evt_[0-9a-z]{20,}`)
		p.run("events", "redrive", event, "--reason", "x", "--yes").exits(5).says("dead letters")
	})
}

// A chain that was changed in the database is found, and the exit code
// says that something differs.
func TestExitCodeOfABrokenChain(t *testing.T) {
	p := newPlace(t, "")
	s := p.serve()
	id := p.run(append(create, "48.00")...).exits(0).first(`pay_[0-9a-z]+`)
	p.run("audit", "verify", "--subject", id).exits(0).prints(`"intact": true`)
	p.run("audit", "verify").exits(0).prints(`"intact": true`)
	if code := s.interrupt(t); code != 0 {
		t.Fatalf("serve ends with %d:\n%s", code, s.err)
	}
	db, err := sql.Open("sqlite", filepath.Join(p.folder, "unavez.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "UPDATE audit SET actor = 'nobody' WHERE subject = ?", id)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.serve()
	p.run("audit", "verify", "--subject", id).exits(7).prints(`"intact": false`).says("broken")
	p.run("audit", "verify").exits(7).prints(id).says("broken")
	r := p.run("audit", "verify", "--subject", id, "-o", "json").exits(7).parses("json")
	one(t, "the problem", r.err)
	r.says(`"code":"unknown"`)
}

// With -o json a failure is one problem object on standard error, wherever it
// arose, and also when the flag that is wrong stands first.
func TestProblemsAreOneObject(t *testing.T) {
	p := newPlace(t, "")
	p.serve()
	p.run(append(create, "48.00")...).exits(0)
	for _, c := range []struct {
		want string
		args []string
	}{
		{`"code":"usage"`, []string{"nothing"}},
		{`"code":"usage"`, []string{"payments", "list", "--frob"}},
		{`"code":"usage"`, []string{"payments", "create"}},
		{`"code":"usage"`, []string{"events", "redrive", "evt_1"}},
		{`"code":"not_found"`, []string{"payments", "get", "pay_none"}},
		{`"code":"not_found"`, []string{"search", "none"}},
		{`"code":"payment_conflict"`, append(create, "49.00")},
		{`"code":"failed"`, []string{"healthcheck", "--server", "http://" + closedAddress(t)}},
		{`"code":"failed"`, []string{"config", "check", "--config", "nowhere.yaml"}},
	} {
		for flags, format := range map[string]string{"-o json": "json", "--output=jsonl": "jsonl", "-ojson": "json"} {
			r := p.run(slices.Concat(c.args, strings.Fields(flags))...).says(c.want).parses(format)
			if r.code == 0 {
				t.Errorf("%s: exit code 0", r.command)
			}
			one(t, r.command+": standard error", r.err)
		}
	}
}
