package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable names the environment variable that holds the server's URL. Its
// user must be allowed to create databases.
const Variable = "UNAVEZ_TEST_POSTGRES"

const (
	prefix       = "unavez_test_"
	nameBytesMax = 63 // PostgreSQL cuts longer names, silently
	// waitMax bounds each call here, the wait for another process that builds
	// the same template included.
	waitMax = 2 * time.Minute
)

// Server returns the URL of the server's own database. It fails the test if
// there is none.
func Server(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		t.Fatalf("pgtest: %s is not set: run through make test, or scripts/with-services.sh go test ./…", Variable)
	}
	return server
}

// URL creates an empty database and returns its URL; the test's end drops it,
// with whatever is still connected.
func URL(t testing.TB) string {
	t.Helper()
	return create(t, Server(t), "")
}

// FromTemplate returns the URL of a database that is a copy of the template
// with the name. The first caller on the server, over all processes, builds
// the template: migrate gets the URL of an empty database and must have closed
// its connections when it returns. Later callers only copy, so the name must
// change when the schema does: let it hold a checksum of the migrations.
// A migrate that returns an error leaves no template.
func FromTemplate(t testing.TB, name string, migrate func(url string) error) string {
	t.Helper()
	server := Server(t)
	template := prefix + "template_" + plain(name)
	if len(template)+len(building) > nameBytesMax {
		t.Fatalf("pgtest: the template's name %q is longer than %d bytes", name, nameBytesMax-len(building)-len(prefix+"template_"))
	}
	if err := build(server, template, migrate); err != nil {
		t.Fatalf("pgtest: building template %s: %v", name, err)
	}
	return create(t, server, template)
}

// building marks a template that is not complete; renaming it is the commit.
const building = "_building"

func build(server, template string, migrate func(url string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	// The lock ends with the session, so that a killed builder blocks nobody.
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, template); err != nil {
		return err
	}
	var done bool
	const exists = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := conn.QueryRow(ctx, exists, template).Scan(&done); err != nil || done {
		return err
	}
	raw := template + building
	if err := exec(ctx, conn, `DROP DATABASE IF EXISTS `+quote(raw)+` WITH (FORCE)`, `CREATE DATABASE `+quote(raw)); err != nil {
		return err
	}
	to, err := with(server, raw)
	if err != nil {
		return err
	}
	if err := migrate(to); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	// RENAME waits some seconds for sessions that are about to end, and refuses
	// if one stays: a template with an open session cannot be copied.
	return exec(ctx, conn, `ALTER DATABASE `+quote(raw)+` RENAME TO `+quote(template))
}

func create(t testing.TB, server, template string) string {
	t.Helper()
	name := prefix + plain(t.Name())
	name = name[:min(len(name), nameBytesMax-17)] + "_" + random()
	statement := `CREATE DATABASE ` + quote(name)
	if template != "" {
		statement += ` TEMPLATE ` + quote(template)
	}
	if err := alone(server, statement); err != nil {
		t.Fatalf("pgtest: creating database %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := alone(server, `DROP DATABASE IF EXISTS `+quote(name)+` WITH (FORCE)`); err != nil {
			t.Errorf("pgtest: dropping database %s: %v", name, err)
		}
	})
	to, err := with(server, name)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return to
}

// alone runs one statement on a connection of its own.
func alone(server, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	return exec(ctx, conn, statement)
}

func exec(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// with returns the server's URL for another of its databases.
func with(server, database string) (string, error) {
	to, err := url.Parse(server)
	if err != nil || to.Scheme == "" {
		return "", fmt.Errorf("%s must be a URL, postgres://…", Variable)
	}
	to.Path = "/" + database
	return to.String(), nil
}

var special = regexp.MustCompile(`[^a-z0-9]+`)

func plain(name string) string {
	return strings.Trim(special.ReplaceAllString(strings.ToLower(name), "_"), "_")
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func random() string {
	var raw [8]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}
