package cli_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/config"
	"github.com/unavez/unavez/outbox"
	"github.com/unavez/unavez/receive"
)

// All problems come at once: those of the text, of the secrets and of the
// meaning, for every command that reads the configuration.
func TestConfigurationProblemsAllAtOnce(t *testing.T) {
	p := newPlace(t, "")
	p.write(`listen: {ingres: "127.0.0.1:0"}
tokens: [{name: x, role: king, secret: plainly_written_secret}]
accounts:
  - {name: UPPER, provider: nobody, mode: half, secrets: [env:MISSING], fulfill_on: hope}
  - {name: bare, provider: stripe, mode: test, wait_for: soon}
destinations: [{name: s, url: "ftp://x", types: ["*"], secret: file:/nowhere/at/all}]
work: {entry_timeout: 30s, lease: 31s}
`)
	want := []string{
		`line 1: the key "ingres" is not known`, "line 2: secret", "by reference only", "line 4: secrets", "MISSING", "line 5", "soon",
		"line 6: secret", "/nowhere/at/all", "name must be lower-case", `provider "nobody"`, "mode must be", `fulfill_on is "hope"`,
		`role is "king"`, "account bare: has no secret", "ftp", "work.lease 31s is shorter than twice",
	}
	for _, args := range [][]string{{"config", "check"}, {"config", "show"}, {"serve"}, {"migrate", "status"}, {"simulate", "stripe", "charge.refunded"}} {
		p.run(args...).exits(1).says(want...).lacks("plainly_written_secret", "unresolved")
		r := p.run(append(args, "-o", "json")...).exits(1).says(`"code":"configuration"`).lacks("plainly_written_secret")
		one(t, r.command, r.err)
	}
	p.run("doctor").exits(1).prints(want...).lacks("plainly_written_secret")
}

// R6.7: the server refuses to start when a lease does not outlast the time
// limit of one entry twice.
func TestLeaseOutlastsTheTimeLimit(t *testing.T) {
	p := newPlace(t, "work: {entry_timeout: 10s, lease: 19s}\n")
	p.run("serve").exits(1).says("work.lease 19s is shorter than twice work.entry_timeout 10s")
}

// R9.1: no command prints a secret of the configuration, nor a password in the
// database's URL.
func TestSecretsAreNeverPrinted(t *testing.T) {
	p := newPlace(t, `destinations:
  - {name: shop, url: "http://127.0.0.1:1/", types: ["*"], secret: env:SHOP_SECRET, secrets: [env:OLD], allow_private: true, headers: {X-Key: header-value}}
audit: {seal_key: env:SEAL}
`)
	p.env["OLD"], p.env["SEAL"] = "old-secret-of-the-shop", "key-of-the-seal"
	for _, database := range []string{
		"postgres://u:password-of-the-database@127.0.0.1:1/db", "postgres://127.0.0.1:1/db?user=u&password=password-of-the-database",
		"postgres://u:password-of-the-database%zz@127.0.0.1:1/db",
	} {
		p.env["UNAVEZ_DATABASE"] = database
		for _, args := range [][]string{
			{"config", "show"}, {"config", "show", "-o", "json"}, {"config", "check"}, {"doctor"}, {"doctor", "-o", "json"},
			{"serve"}, {"migrate", "up"},
		} {
			p.run(args...).lacks("password-of-the-database", "old-secret-of-the-shop", "key-of-the-seal", "header-value")
		}
		p.run("config", "show").exits(0).prints("stripe-es", "[secret]")
		p.run("config", "show", "-o", "json").exits(0).parses("json").prints(`"[secret]"`)
	}
}

// The environment replaces the file.
func TestEnvironmentReplacesTheFile(t *testing.T) {
	p := newPlace(t, "")
	p.env["UNAVEZ_LISTEN_INGRESS"], p.env["UNAVEZ_LOG_LEVEL"] = "127.0.0.1:4242", "debug"
	p.run("config", "show").exits(0).prints("ingress: 127.0.0.1:4242", "level: debug")
	p.env["UNAVEZ_LOG_LEVEL"] = "loud"
	p.run("serve").exits(1).says("loud")
}

const example = "../../unavez.example.yaml"

var exampleSecret = regexp.MustCompile(`env:([A-Z_]+)`)

// The example loads through the real loader, what it writes are the defaults,
// and it names every key.
func TestExampleConfiguration(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, "")
	for _, m := range exampleSecret.FindAllStringSubmatch(string(text), -1) {
		p.env[m[1]] = "secret-of-" + m[1] + "-long-enough"
	}
	p.run("config", "check", "--config", example).exits(0).prints("1 account, 1 destination")

	var c unavez.Config
	if err := config.Load(config.Source{Path: example, Getenv: p.getenv}, &c); err != nil {
		t.Fatal(err)
	}
	bare := unavez.Config{Accounts: []unavez.Account{{Name: "a", Provider: "stripe", Mode: "test", Secrets: c.Accounts[0].Secrets}}}
	if err := bare.Fill(); err != nil {
		t.Fatal(err)
	}
	a, d, yes := bare.Accounts[0], c.Destinations[0], true
	for what, pair := range map[string][2]any{
		"listen":              {c.Listen, unavez.Listen{Ingress: bare.Listen.Ingress, Private: bare.Listen.Private, Hosts: []string{}}},
		"database":            {c.Database, bare.Database},
		"shop":                {c.Accounts[0].Shop, a.Shop},
		"fulfill_on":          {c.Accounts[0].FulfillOn, a.FulfillOn},
		"fulfill_within":      {c.Accounts[0].FulfillWithin, apply.DefaultFulfillWithin},
		"unregistered":        {c.Accounts[0].Unregistered, a.Unregistered},
		"wait_for":            {c.Accounts[0].WaitFor, apply.DefaultWaitFor},
		"quiet":               {c.Accounts[0].Quiet, apply.DefaultQuiet},
		"order_metadata":      {c.Accounts[0].OrderMetadata, a.OrderMetadata},
		"processing":          {c.Accounts[0].Processing, a.Processing},
		"idempotent":          {*d.Idempotent, yes},
		"allow_private":       {d.AllowPrivate, false},
		"timeout":             {d.Timeout, outbox.DefaultTimeout},
		"concurrency":         {d.Concurrency, outbox.DefaultConcurrency},
		"body_bytes_max":      {c.Limits.BodyBytesMax, int64(receive.DefaultBodyBytesMax)},
		"in_flight_bytes_max": {c.Limits.InFlightBytesMax, int64(receive.DefaultInFlightBytesMax)},
		"connections_max":     {c.Limits.ConnectionsMax, receive.DefaultConnectionsMax},
		"read_header_timeout": {c.Limits.ReadHeaderTimeout, receive.DefaultHeaderTimeout},
		"read_body_timeout":   {c.Limits.ReadBodyTimeout, receive.DefaultBodyTimeout},
		"queue_entries_max":   {c.Limits.QueueEntriesMax, inbox.DefaultQueueRowsMax},
		"work": {c.Work, unavez.Work{
			Workers: apply.DefaultWorkers, Attempts: apply.DefaultAttempts, EntryTimeout: apply.DefaultEntryTimeout,
			Lease: 2 * apply.DefaultEntryTimeout, Poll: apply.DefaultPoll,
		}},
		"api": {c.API, bare.API},
		"log": {c.Log.Level, "info"},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: the example says %v, the default is %v", what, pair[0], pair[1])
		}
	}
	manual, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys(reflect.TypeFor[unavez.Config]()) {
		if !regexp.MustCompile(`(?m)^[ -]*(# )?` + key + `:`).Match(text) {
			t.Errorf("the example lacks the key %s", key)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[unavez.Account](), reflect.TypeFor[unavez.Destination]()} {
		for _, key := range keys(of) {
			if !strings.Contains(string(manual), "`"+key+"`") {
				t.Errorf("docs/configuration.md lacks the key %s", key)
			}
		}
	}
}

// keys lists the YAML keys of a struct and what it is made of.
func keys(of reflect.Type) (list []string) {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		return nil
	}
	for i := range of.NumField() {
		f := of.Field(i)
		if key := f.Tag.Get("yaml"); key != "" {
			list = append(append(list, key), keys(f.Type)...)
		}
	}
	return list
}

// The configuration of the compose file loads too.
func TestComposeConfiguration(t *testing.T) {
	p := newPlace(t, "")
	p.env["STRIPE_WHSEC"] = webhookSecret
	p.run("config", "check", "--config", filepath.Join(deploy, "compose", "unavez.yaml")).exits(0)
}
