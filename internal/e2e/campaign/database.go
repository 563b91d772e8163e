package campaign

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/store"
)

// database makes an empty ledger of the kind and brings its schema up. drop
// removes it.
func database(ctx context.Context, e *Env, kind string) (address string, drop func(), err error) {
	if kind == sqliteStore {
		address, drop = filepath.Join(e.Dir, "ledger.db"), func() {}
	} else if address, drop, err = createPostgres(ctx, e.Postgres); err != nil {
		return "", nil, err
	}
	s, err := unavez.Open(ctx, address, nil)
	if err == nil {
		_, err = s.MigrateUp(ctx)
		if closed := s.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		drop()
		return "", nil, fmt.Errorf("preparing a ledger: %w", err)
	}
	return address, drop, nil
}

// connsMax bounds the connections for transactions of one process.
const connsMax = "8"

func createPostgres(ctx context.Context, server string) (address string, drop func(), err error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return "", nil, fmt.Errorf("the server's URL must be postgres://…; run through make")
	}
	name := "unavez_prove_" + strings.ToLower(rand.Text())
	quoted := pgx.Identifier{name}.Sanitize()
	if err := statement(ctx, server, "CREATE DATABASE "+quoted); err != nil {
		return "", nil, fmt.Errorf("creating database %s: %w", name, err)
	}
	u.Path = "/" + name
	query := u.Query()
	query.Set("pool_max_conns", connsMax) // several processes share the server's connections
	u.RawQuery = query.Encode()
	return u.String(), func() {
		_ = statement(context.WithoutCancel(ctx), server, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)")
	}, nil
}

// statement runs one statement on a connection of its own.
func statement(ctx context.Context, server, sql string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// openLedger opens a ledger for a campaign that works on it in this process.
func openLedger(ctx context.Context, e *Env, kind string) (store.Store, func(), error) {
	address, drop, err := database(ctx, e, kind)
	if err != nil {
		return nil, nil, err
	}
	s, err := unavez.Open(ctx, address, nil)
	if err != nil {
		drop()
		return nil, nil, err
	}
	return s, func() { _ = s.Close(); drop() }, nil
}
