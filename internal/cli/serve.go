package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/receive"
	"github.com/unavez/unavez/store"
)

const (
	// stopWithin bounds the soft stop: what is in work then is left to its lease.
	stopWithin = 30 * time.Second
	// edgeWithin bounds the wait for open requests of a listener.
	edgeWithin = 10 * time.Second
)

func (a *app) serveCommand() *cobra.Command {
	var role, migrate string
	var weak bool
	c := &cobra.Command{
		Use: "serve", Short: "Run the server: ingress, workers, private API",
		Example: `  unavez serve --config unavez.yaml
  UNAVEZ_DATABASE=postgres://… unavez serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if role != "all" {
				return usage("--role is %q; this version serves all", role)
			}
			if migrate != "auto" && migrate != "off" {
				return usage("--migrate is %q, not auto or off", migrate)
			}
			return a.withLedger(cmd.Context(), func(c unavez.Config, s store.Store) error {
				return a.serve(cmd.Context(), c, s, migrate == "auto", weak)
			})
		},
	}
	c.Flags().StringVar(&role, "role", "all", "what this process does: all")
	c.Flags().StringVar(&migrate, "migrate", "auto", "bring the schema up at the start: auto, off")
	c.Flags().BoolVar(&weak, "allow-weak-durability", false, "start although the database may lose what was acknowledged")
	return c
}

// server is a running server: the engine and its two listeners.
type server struct {
	engine           *unavez.Engine
	api              *httpapi.API
	ingress, private *http.Server
	ingressL, privL  net.Listener
}

func (a *app) serve(ctx context.Context, c unavez.Config, s store.Store, migrate, weak bool) error {
	sv, err := a.prepare(ctx, c, s, migrate, weak)
	if err != nil {
		return err
	}
	if err := sv.engine.Start(ctx); err != nil {
		return err
	}
	sv.api.Start(ctx)
	group, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	group.Go(func() error { return serving(sv.ingress.Serve(sv.ingressL)) })
	group.Go(func() error { return serving(sv.private.Serve(sv.privL)) })
	if len(c.Accounts) == 0 {
		fmt.Fprintln(a.Err, "No account is configured, so nothing can be received; unavez.example.yaml shows how to add one.")
	}
	fmt.Fprintf(a.Err, "ingress  http://%s/webhooks/{account}\nprivate  http://%s\n", sv.ingressL.Addr(), sv.privL.Addr())
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	a.stop() // a second signal ends the process at once
	return errors.Join(sv.shutdown(ctx), group.Wait())
}

func serving(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// prepare brings the schema up, wires everything and listens; it starts nothing.
func (a *app) prepare(ctx context.Context, c unavez.Config, s store.Store, migrate, weak bool) (*server, error) {
	log, err := a.logger(c.Log, a.Err)
	if err != nil {
		return nil, err
	}
	if migrate {
		done, err := s.MigrateUp(ctx)
		if err != nil {
			return nil, err
		}
		for _, m := range done {
			log.Info("schema migrated", "version", m.Version, "name", m.Name)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	engine, err := unavez.New(ctx, s, c, unavez.Options{Logger: log, Registry: registry, AllowWeakDurability: weak})
	if err != nil {
		return nil, err
	}
	made, err := httpapi.EnsureAdminToken(ctx, s, c.AdminTokenFile, httpapi.Tokens(c.Tokens), time.Now())
	if err != nil {
		return nil, err
	}
	if made {
		fmt.Fprintf(a.Err, "An admin token was written to %s; only its owner can read it.\n", c.AdminTokenFile)
	}
	sv := &server{engine: engine, ingress: engine.Ingress()}
	if sv.ingressL, err = receive.Listen(ctx, c.Listen.Ingress, engine.Limits.Filled()); err != nil {
		return nil, fmt.Errorf("listening for providers: %w", err)
	}
	if sv.privL, err = (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen.Private); err != nil {
		return nil, errors.Join(fmt.Errorf("listening for the private API: %w", err), sv.ingressL.Close())
	}
	deps := httpapi.FromEngine(engine, buildVersion())
	deps.Listen = sv.privL.Addr().String()
	if sv.api, err = httpapi.New(deps); err != nil {
		return nil, errors.Join(err, sv.ingressL.Close(), sv.privL.Close())
	}
	sv.private = httpapi.NewServer(deps.Listen, sv.api)
	return sv, nil
}

// shutdown says no to readiness, stops the intake, then the workers, then the
// API; the ledger is closed by whoever opened it.
func (sv *server) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	sv.api.Drain()
	edge, end := context.WithTimeout(ctx, edgeWithin)
	defer end()
	err := sv.ingress.Shutdown(edge)
	err = errors.Join(err, sv.engine.Stop(ctx))
	err = errors.Join(err, sv.private.Shutdown(edge))
	sv.api.Stop()
	return err
}

// buildVersion reads what the build recorded.
func buildVersion() httpapi.Version {
	v := httpapi.Version{Version: "devel", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}
