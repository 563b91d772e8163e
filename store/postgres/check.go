package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/unavez/unavez/store"
)

// serverVersionMin is PostgreSQL 14: lz4 and exact extract.
const serverVersionMin = 140000

// requirement is a setting that a promise rests on.
type requirement struct {
	name string
	good []string
	why  string
}

var requirements = []requirement{
	{"fsync", []string{"on"}, "what was committed can be gone after a power failure"},
	{"full_page_writes", []string{"on"}, "a page that was torn by a power failure cannot be mended"},
	{"synchronous_commit", []string{"on", "remote_apply"}, "a commit is reported before it is durable"},
	{"server_encoding", []string{"UTF8"}, "texts of providers cannot be stored"},
	{"transaction_read_only", []string{"off"}, "the server takes no writes"},
}

// Check implements store.Store. The findings are complete unless the server
// cannot be reached.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) {
	var findings []store.Finding
	conn, err := s.acquire(ctx, s.pool, func(ctx context.Context, conn *pgxpool.Conn) error { return conn.Ping(ctx) })
	if err != nil {
		return nil, doing("checking the server", err)
	}
	findings, err = settings(ctx, conn.Conn())
	conn.Release()
	if err != nil {
		return nil, doing("reading settings", judge(err, conn.Conn().IsClosed()))
	}
	err = s.schema(ctx)
	finding := store.Finding{Name: "schema", OK: err == nil, Message: "fits this program"}
	if err != nil {
		finding.Message = err.Error()
	}
	return append(findings, finding), doing("checking the schema", err)
}

func settings(ctx context.Context, conn *pgx.Conn) ([]store.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutDefault)
	defer cancel()
	var findings []store.Finding
	for _, r := range requirements {
		var value string
		if err := conn.QueryRow(ctx, `SELECT current_setting($1)`, r.name).Scan(&value); err != nil {
			return nil, fmt.Errorf("reading %s: %w", r.name, err)
		}
		f := store.Finding{Name: r.name, OK: slices.Contains(r.good, value), Message: value}
		if !f.OK {
			f.Message = fmt.Sprintf("%s is %s: %s", r.name, value, r.why)
		}
		findings = append(findings, f)
	}
	var version int
	var name string
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version')`).Scan(&version, &name)
	f := store.Finding{Name: "server_version", OK: version >= serverVersionMin, Message: name}
	if !f.OK {
		f.Message = name + " is older than 14"
	}
	return append(findings, f), err
}

// Now implements store.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now int64
	conn, err := s.acquire(ctx, s.pool, func(ctx context.Context, conn *pgxpool.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
		defer cancel()
		return conn.QueryRow(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&now)
	})
	if err != nil {
		return time.Time{}, doing("reading the ledger's clock", err)
	}
	conn.Release()
	return moment(now), nil
}
