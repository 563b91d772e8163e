package cli_test

import (
	"net/url"
	"testing"

	"github.com/unavez/unavez/internal/demo"
	"github.com/unavez/unavez/internal/pgtest"
)

// R8.1: the demonstration agrees on PostgreSQL too.
func TestDemoOnPostgreSQL(t *testing.T) {
	r := execute(t, nil, "demo", "--once", "--payments", "12", "--seed", "5", "-o", "jsonl", "--database", pgtest.URL(t)).exits(0).parses("jsonl")
	if got := report(t, r.out); got.Verdict != demo.Agree || got.Effects.Expected != 12 || got.Kills != 6 {
		t.Errorf("the report is %+v", got)
	}
}

// R8.1: the schema of PostgreSQL is planned, brought up and served by command.
func TestMigrateAndServeOnPostgreSQL(t *testing.T) {
	p := newPlace(t, "")
	p.env["UNAVEZ_DATABASE"] = pgtest.URL(t)
	p.run("serve", "--migrate", "off").exits(1).says("schema")
	p.run("migrate", "status", "-o", "jsonl").exits(0).lacks(`"applied":true`)
	p.run("migrate", "plan").exits(0).prints("CREATE TABLE")
	p.run("migrate", "up").exits(0).prints("true")
	p.run("migrate", "plan").exits(0).lacks("CREATE TABLE")
	p.serve("--migrate", "off")
	p.run("doctor").exits(0).prints("fsync", "synchronous_commit", "is ready")
	p.run(append(create, "48.00")...).exits(0)
	p.run("simulate", "stripe", "payment_intent.succeeded", "--order", "A-1", "--amount", "48.00", "--reference", "pi_1").exits(0)
	p.until(`captured +48\.00 EUR`, "payments", "list", "--order", "A-1")
}

// R1.7: a database that would lose what it acknowledged is refused at the
// start, and taken only if somebody says so.
func TestServeRefusesAWeakDatabase(t *testing.T) {
	p := newPlace(t, "")
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("synchronous_commit", "off")
	u.RawQuery = query.Encode()
	p.env["UNAVEZ_DATABASE"] = u.String()
	p.run("migrate", "up").exits(0)
	p.run("serve").exits(1).says("weaken durability", "synchronous_commit is off")
	p.run("doctor").exits(1).prints("a commit is reported before it is durable")
	p.serve("--allow-weak-durability")
	p.run("healthcheck").exits(0)
}
