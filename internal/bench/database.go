package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/internal/bench/naive"
	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/payment"
)

const databasePrefix = "unavez_bench_"

// server is the PostgreSQL that the databases of the run live in.
type server struct {
	url        string
	postmaster int
	made       map[string]bool // databases of this run
	alone      *pgx.Conn       // holds the lock that keeps other runs away
	next       int
}

// connect finds the server, checks that it keeps what it acknowledges, and
// removes what an earlier run left.
func connect(ctx context.Context, address string) (*server, error) {
	if address == "" {
		return nil, fmt.Errorf("%s is not set: run through make bench, or scripts/with-services.sh go run ./internal/bench", pgtest.Variable)
	}
	s := &server{url: address, made: map[string]bool{}}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	s.alone = conn
	var durable, alone bool
	var pidFile string
	err = conn.QueryRow(ctx, `SELECT current_setting('fsync') = 'on' AND current_setting('synchronous_commit') = 'on'
AND current_setting('full_page_writes') = 'on', pg_read_file('postmaster.pid'), pg_try_advisory_lock(hashtextextended($1, 0))`,
		databasePrefix).Scan(&durable, &pidFile, &alone)
	if err != nil {
		return nil, fmt.Errorf("reading the server's settings: %w", err)
	}
	if !durable {
		return nil, errors.New("fsync, synchronous_commit and full_page_writes must be on")
	}
	if !alone {
		return nil, errors.New("another run measures on this server")
	}
	first, _, _ := strings.Cut(pidFile, "\n")
	if s.postmaster, err = strconv.Atoi(first); err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE starts_with(datname, $1)`, databasePrefix)
	if err != nil {
		return nil, err
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, name := range left {
		if err := s.drop(ctx, name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *server) exec(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

func (s *server) drop(ctx context.Context, name string) error {
	delete(s.made, name)
	return s.exec(ctx, `DROP DATABASE IF EXISTS `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`)
}

// close drops what is left of this run.
func (s *server) close(ctx context.Context) error {
	var err error
	for name := range s.made {
		err = errors.Join(err, s.drop(ctx, name))
	}
	return errors.Join(err, s.alone.Close(ctx))
}

// address is the URL of one of the server's databases.
func (s *server) address(name string) string {
	u, err := url.Parse(s.url)
	if err != nil {
		panic("bench: impossible: " + err.Error()) // it was connected to
	}
	u.Path = "/" + name
	return u.String()
}

// fresh makes a copy of the template with so many payments, which it makes
// first if it is not there. The copy is the caller's to drop.
func (s *server) fresh(ctx context.Context, kind string, payments int) (string, error) {
	template := fmt.Sprintf("%s%s_%d", databasePrefix, kind, payments)
	if !s.made[template] {
		if err := s.template(ctx, kind, template, payments); err != nil {
			return "", fmt.Errorf("making the template %s: %w", template, err)
		}
	}
	s.next++
	name := fmt.Sprintf("%srun_%d", databasePrefix, s.next)
	s.made[name] = true
	return name, s.exec(ctx, `CREATE DATABASE `+name+` TEMPLATE `+template)
}

func (s *server) template(ctx context.Context, kind, name string, payments int) error {
	s.made[name] = true
	if err := s.exec(ctx, `CREATE DATABASE `+name); err != nil {
		return err
	}
	fill := registered
	if kind == "naive" {
		fill = expected
	}
	if err := fill(ctx, s.address(name), payments); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.address(name))
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(ctx, `VACUUM ANALYZE`)
	return err
}

// expected fills the baseline's database.
func expected(ctx context.Context, address string, payments int) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, naive.Schema); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `INSERT INTO payment (id, order_id, amount, currency, state, updated_at)
SELECT 'pi_bench' || lpad(i::text, 8, '0'), 'bench-' || lpad(i::text, 8, '0'), $2::bigint, $3::text, 'expected', now()
FROM generate_series(0, $1::int - 1) i`, payments, int64(amount), currency)
	return err
}

// registered fills a ledger: one payment is registered as merchants do it, and
// its rows are the pattern of all the others.
func registered(ctx context.Context, address string, payments int) error {
	ledger, err := unavez.Open(ctx, address, nil)
	if err != nil {
		return err
	}
	defer ledger.Close()
	if _, err := ledger.MigrateUp(ctx); err != nil {
		return err
	}
	e, err := unavez.New(ctx, ledger, config(spec{Database: address}), unavez.Options{})
	if err != nil {
		return err
	}
	first, err := e.Applier.Register(ctx, apply.Registration{
		Order: orderID(0), Account: accountName, Amount: payment.Money{Value: amount, Currency: currency}, References: []string{intentID(0)},
	}, "bench")
	if err != nil || payments == 1 {
		return err
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	for _, table := range []string{"payment", "orders", "name", "audit"} {
		if _, err := conn.Exec(ctx, copies(table), first.Payment.ID, first.Order.ID, payments-1); err != nil {
			return fmt.Errorf("copying rows of %s: %w", table, err)
		}
	}
	return nil
}

// copies repeats the rows of a table with the first payment's ids and names
// replaced by those of payment i, in whatever columns they stand.
func copies(table string) string {
	const digits = `lpad(i::text, 8, '0')`
	subject := map[string]string{"payment": "p.id = $1", "orders": "p.id = $2", "name": "p.payment = $1", "audit": "p.subject IN ($1, $2)"}[table]
	unique := `'{}'::jsonb`
	if table == "audit" {
		unique = `jsonb_build_object('id', p.id || ` + digits + `)`
	}
	return `INSERT INTO ` + table + ` OVERRIDING SYSTEM VALUE SELECT (made.row).* FROM (
SELECT jsonb_populate_record(p, replace(replace(replace(replace(to_jsonb(p)::text, $1::text, 'pay_bench' || ` + digits + `),
    $2::text, 'ord_bench' || ` + digits + `), 'pi_bench00000000', 'pi_bench' || ` + digits + `), 'bench-00000000', 'bench-' || ` + digits + `)::jsonb || ` + unique + `) AS row
FROM ` + table + ` p CROSS JOIN generate_series(1, $3::int) i WHERE ` + subject + ` OFFSET 0) made
WHERE $1::text <> '' AND $2::text <> ''`
}

// figures are what the server has done so far.
type figures struct {
	wal     int64 // bytes, of the whole server
	commits int64 // of the database
	time    time.Duration
}

// watch is a connection that looks on.
type watch struct {
	conn *pgx.Conn
	kind string
	of   *server
}

func (s *server) watch(ctx context.Context, name, kind string) (*watch, error) {
	conn, err := pgx.Connect(ctx, s.address(name))
	return &watch{conn, kind, s}, err
}

func (w *watch) close() { w.conn.Close(context.Background()) }

func (w *watch) figures(ctx context.Context) (f figures, err error) {
	err = w.conn.QueryRow(ctx, `SELECT pg_current_wal_lsn() - '0/0'::pg_lsn,
(SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())`).Scan(&f.wal, &f.commits)
	if err != nil {
		return f, fmt.Errorf("reading the server's figures: %w", err)
	}
	f.time, err = serverTime(w.of.postmaster)
	return f, err
}

// pending says whether anything is left to apply, or to deliver as well.
func (w *watch) pending(ctx context.Context, deliveries bool) (some bool, err error) {
	if w.kind == "naive" {
		return false, nil
	}
	err = w.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM work WHERE queue = 'inbox') OR $1 AND EXISTS (SELECT FROM work)`, deliveries).Scan(&some)
	return some, err
}

// captured counts the payments that have reached their state.
func (w *watch) captured(ctx context.Context) (n int, err error) {
	err = w.conn.QueryRow(ctx, `SELECT count(*) FROM payment WHERE state = 'captured'`).Scan(&n)
	return n, err
}
