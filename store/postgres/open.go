package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/unavez/unavez/store"
)

// Defaults of Options, and bounds that are no option.
const (
	connsMaxDefault      = 16
	claimConnsMaxDefault = 4
	lockTimeoutDefault   = 10 * time.Second
	timeoutDefault       = 30 * time.Second
	commitTimeoutDefault = 30 * time.Second
	acquireTimeout       = 10 * time.Second
	// deadlineGrace is how much later than the server the client gives up.
	deadlineGrace = 2 * time.Second
	endTimeout    = 5 * time.Second
	// cancelTimeout is how long the server may take to cancel a statement whose
	// caller has gone, before the connection is cut.
	cancelTimeout = 2 * time.Second
)

// Options tune a Store. The zero value is useful.
type Options struct {
	// ConnsMax bounds the connections for transactions; zero takes the URL's
	// pool_max_conns, or 16.
	ConnsMax int32
	// ClaimConnsMax bounds the connections for claims and hints, which never wait
	// behind transactions; zero is 4. One more connection listens.
	ClaimConnsMax int32
	// LockTimeout and Timeout are the defaults of store.TxOptions: 10 s, 30 s.
	LockTimeout, Timeout time.Duration
	// CommitTimeout bounds the wait for the answer to COMMIT: 30 s. When it
	// runs out the result is store.ErrCommitUnknown.
	CommitTimeout time.Duration
	// ApplicationName is what the server shows the sessions as; "unavez".
	ApplicationName string
	// Logger hears of what no caller is told: the listener's reconnects.
	Logger *slog.Logger
	// NewToken mints lease tokens, each unique; nil is 130 random bits.
	NewToken func() string
}

func (o Options) withDefaults() Options {
	if o.ClaimConnsMax <= 0 {
		o.ClaimConnsMax = claimConnsMaxDefault
	}
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&o.LockTimeout, lockTimeoutDefault}, {&o.Timeout, timeoutDefault}, {&o.CommitTimeout, commitTimeoutDefault}} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	if o.ApplicationName == "" {
		o.ApplicationName = "unavez"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.NewToken == nil {
		o.NewToken = rand.Text
	}
	return o
}

// Store is a ledger in PostgreSQL.
type Store struct {
	opt    Options
	pool   *pgxpool.Pool
	claims *pgxpool.Pool
	waker  *waker
	epoch  atomic.Uint64
}

var _ store.Store = (*Store)(nil)

// Open prepares a store for the database with the URL (or key-value string).
// It does not connect: a server that is down is store.ErrUnavailable at the
// first use, and Check says what is wrong with it. Parameters of the URL that
// pgx does not know go to the session and win over ours; a pooler that cannot
// keep prepared statements wants default_query_exec_mode=exec.
func Open(_ context.Context, address string, opt Options) (*Store, error) {
	opt = opt.withDefaults()
	s := &Store{opt: opt}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		// The driver's message is free of the password; the address is not.
		return nil, fmt.Errorf("postgres: reading the database's URL: %w", err)
	}
	switch {
	case opt.ConnsMax > 0:
		config.MaxConns = opt.ConnsMax
	case !strings.Contains(address, "pool_max_conns"):
		config.MaxConns = connsMaxDefault
	}
	// The listener waits idle, where there is nothing to cancel.
	s.waker = newWaker(s, config.ConnConfig)
	s.prepare(config)
	// Contexts bound what follows: pools live until Close.
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, fmt.Errorf("postgres: opening the pool: %w", err)
	}
	claims := config.Copy()
	claims.MaxConns, claims.MinConns = opt.ClaimConnsMax, 0
	claims.ConnConfig.RuntimeParams["plan_cache_mode"] = freshPlans
	// A claim that a crash of the server undoes is a lease that nobody holds: its
	// work cannot be completed under the token, and is claimed again.
	claims.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	if s.claims, err = pgxpool.NewWithConfig(context.Background(), claims); err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("postgres: opening the pool for claims: %w", err)
	}
	s.waker.start()
	return s, nil
}

// session is what every session is opened with, unless the URL says otherwise.
//
// Plans are pinned: rows are found through indexes, row by row. The planner
// would choose that by itself for tables that are known to be large. A
// statement that is prepared while they are empty keeps scans and hashes that
// are ruinous later, until somebody analyzes the table. jit would be set off by
// the penalty that a disabled scan carries where there is no other way.
func (s *Store) session() map[string]string {
	return map[string]string{
		"application_name":                    s.opt.ApplicationName,
		"synchronous_commit":                  "on",
		"lock_timeout":                        millis(s.opt.LockTimeout),
		"statement_timeout":                   millis(s.opt.Timeout),
		"idle_in_transaction_session_timeout": millis(s.opt.Timeout),
		"timezone":                            "UTC",
		"enable_seqscan":                      "off",
		"enable_hashjoin":                     "off",
		"enable_mergejoin":                    "off",
		"enable_material":                     "off",
		"random_page_cost":                    "1.1",
		"jit":                                 "off",
		"plan_cache_mode":                     keptPlans,
	}
}

// keptPlans is the plan_cache_mode of everything else: with plans pinned there is
// one way to do it, whatever the length of the arrays, and planning it anew for
// each transaction would cost more than doing it for a few rows.
const keptPlans = "force_generic_plan"

// freshPlans is the plan_cache_mode of what looks through the queues. They are
// empty at one moment and long at the next, and an index that is as good as any
// other for an empty table (the vacuum that notes its emptiness included) reads
// the whole queue later. Planning anew looks at how large the table is now; its
// cost is shared by the items of a claim.
const freshPlans = "force_custom_plan"

// millis is a setting in whole milliseconds; 0 would mean no limit.
func millis(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}

func (s *Store) prepare(config *pgxpool.Config) {
	params := s.session()
	maps.Copy(params, config.ConnConfig.RuntimeParams)
	config.ConnConfig.RuntimeParams = params
	config.ConnConfig.OnNotice = remember
	config.ConnConfig.DialFunc = crashDial(config.ConnConfig.DialFunc)
	// A caller that goes away has its statement canceled on the server, which
	// would hold its locks until it noticed a closed connection.
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelTimeout}
	}
	// BEGIN is the ping: a connection that died idle is found out there.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// noticed is where a connection keeps the last notice that it was sent.
const noticed = "unavez.notice"

func remember(conn *pgconn.PgConn, notice *pgconn.Notice) { conn.CustomData()[noticed] = notice }

// Epoch implements store.Store.
func (s *Store) Epoch() uint64 { return s.epoch.Load() }

// Close ends the listener and waits until every transaction has ended.
func (s *Store) Close() error {
	s.waker.close()
	s.claims.Close()
	s.pool.Close()
	return nil
}

// acquire takes a connection that has answered to first (BEGIN, say). Those
// that died while idle are put away, so that one restart of the server costs
// nobody a failure.
func (s *Store) acquire(ctx context.Context, pool *pgxpool.Pool, first func(context.Context, *pgxpool.Conn) error) (*pgxpool.Conn, error) {
	for tries := pool.Config().MaxConns; ; tries-- {
		conn, err := s.connection(ctx, pool)
		if err != nil {
			return nil, err
		}
		err = first(ctx, conn)
		if err == nil {
			return conn, nil
		}
		err = judge(err, conn.Conn().IsClosed())
		s.end(conn, ctx.Err() == nil)
		if remedyOf(err) != reconnect || tries <= 0 || ctx.Err() != nil {
			return nil, err
		}
	}
}

var errNoConnection = errors.New("no connection came free in time")

func (s *Store) connection(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	waiting, cancel := context.WithTimeoutCause(ctx, acquireTimeout, errNoConnection)
	defer cancel()
	conn, err := pool.Acquire(waiting)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, err
	case waiting.Err() != nil:
		return nil, &failure{sentinel: store.ErrUnavailable, cause: errors.Join(err, context.Cause(waiting))}
	}
	s.epoch.Add(1)
	return nil, unreachable(err)
}

// unreachable makes any failure to connect ErrUnavailable, whatever the driver
// says of it.
func unreachable(err error) error {
	if judged := judge(err, true); errors.Is(judged, store.ErrUnavailable) {
		return judged
	}
	return &failure{sentinel: store.ErrUnavailable, cause: err, remedy: reconnect}
}

// end closes a connection whose state is in doubt; the pool forgets it. It
// failed unless a statement was interrupted from this side.
func (s *Store) end(conn *pgxpool.Conn, failed bool) {
	if !conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		_ = conn.Conn().Close(ctx) // closed is closed, however
	}
	if failed {
		s.epoch.Add(1)
	}
	conn.Release()
}
