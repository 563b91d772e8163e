package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/internal/config"
	"github.com/unavez/unavez/store"
)

const defaultConfig = "unavez.yaml"

// overrides are the environment variables that replace values of the file.
var overrides = map[string]string{
	"database":         "UNAVEZ_DATABASE",
	"listen.ingress":   "UNAVEZ_LISTEN_INGRESS",
	"listen.private":   "UNAVEZ_LISTEN_PRIVATE",
	"log.level":        "UNAVEZ_LOG_LEVEL",
	"log.format":       "UNAVEZ_LOG_FORMAT",
	"admin_token_file": "UNAVEZ_ADMIN_TOKEN_FILE",
}

// load reads the configuration: the named file, or unavez.yaml if it is there.
// All problems are reported at once.
func (a *app) load() (unavez.Config, error) {
	var c unavez.Config
	src := config.Source{Path: a.config, Getenv: a.getenv, Overrides: overrides}
	if src.Path == "" {
		src.Path = a.getenv("UNAVEZ_CONFIG")
	}
	named := src.Path != ""
	if !named {
		src.Path = defaultConfig
	}
	err := config.Load(src, &c)
	if errors.Is(err, config.ErrNoFile) && !named {
		src.Path = ""
		err = config.Load(src, &c)
	}
	var all []string
	var found config.Problems
	switch {
	case errors.As(err, &found):
		all = append(all, found...)
	case err != nil:
		return c, &exitError{exitFailed, err}
	}
	var wrong unavez.Problems
	if errors.As(c.Fill(), &wrong) {
		all = append(all, wrong...)
	}
	if len(all) > 0 {
		return c, configError(all)
	}
	if c.AdminTokenFile == "" {
		c.AdminTokenFile = adminTokenFile
		if path := strings.TrimPrefix(c.Database, "sqlite://"); !strings.Contains(path, "://") {
			c.AdminTokenFile = filepath.Join(filepath.Dir(path), adminTokenFile)
		}
	}
	return c, nil
}

// configError is everything that is wrong with the configuration.
type configError []string

func (e configError) Error() string {
	return fmt.Sprintf("the configuration has %s:\n  %s", plural(len(e), "problem"), strings.Join(e, "\n  "))
}

func (e configError) problem() *problemError {
	p := &problemError{Title: "the configuration has " + plural(len(e), "problem"), Code: "configuration"}
	for _, text := range e {
		p.Errors = append(p.Errors, fault{Detail: text})
	}
	return p
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// logger writes to standard error, as JSON unless that is a terminal.
func (a *app) logger(c unavez.Log, w io.Writer) (*slog.Logger, error) {
	level := slog.LevelInfo
	if c.Level != "" {
		if err := level.UnmarshalText([]byte(c.Level)); err != nil {
			return nil, fmt.Errorf("log.level %q is not debug, info, warn or error", c.Level)
		}
	}
	opt := &slog.HandlerOptions{Level: level}
	switch {
	case c.Format == "json", c.Format == "" && !interactive(w):
		return slog.New(slog.NewJSONHandler(w, opt)), nil
	case c.Format == "text", c.Format == "":
		return slog.New(slog.NewTextHandler(w, opt)), nil
	}
	return nil, fmt.Errorf("log.format %q is not json or text", c.Format)
}

// withLedger opens the ledger of the configuration for a command.
func (a *app) withLedger(ctx context.Context, fn func(unavez.Config, store.Store) error) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	return a.open(ctx, c, fn)
}

// peekLedger is withLedger for commands that only look. Where there is no
// SQLite file yet, none is made: an empty one elsewhere stands for it.
func (a *app) peekLedger(ctx context.Context, fn func(unavez.Config, store.Store) error) (err error) {
	c, err := a.load()
	if err != nil {
		return err
	}
	if !missing(c.Database) {
		return a.open(ctx, c, fn)
	}
	folder, err := os.MkdirTemp("", "unavez-empty-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	c.Database = filepath.Join(folder, "empty.db")
	return a.open(ctx, c, fn)
}

// missing says whether the database is an SQLite file that does not exist.
func missing(database string) bool {
	path := strings.TrimPrefix(database, "sqlite://")
	if strings.Contains(path, "://") {
		return false
	}
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func (a *app) open(ctx context.Context, c unavez.Config, fn func(unavez.Config, store.Store) error) error {
	log, err := a.logger(c.Log, a.Err)
	if err != nil {
		return err
	}
	s, err := unavez.Open(ctx, c.Database, log)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return fn(c, s)
}
