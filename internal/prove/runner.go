package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/internal/e2e/campaign"
)

// progress is what is kept of a campaign between two runs.
type progress struct {
	Campaign string `json:"campaign"`
	Seed     uint64 `json:"seed"`
	// Program is the digest of the program that was proven.
	Program string `json:"program"`
	// Revision is the one that git knew when the campaign began; a + says that
	// files had changed since.
	Revision string            `json:"revision"`
	Begun    time.Time         `json:"begun"`
	Done     map[string]result `json:"done"`
}

// result is what a unit came to.
type result struct {
	Said string    `json:"said"`
	Took string    `json:"took"`
	At   time.Time `json:"at"`
}

// runner runs one campaign.
type runner struct {
	campaign campaign.Campaign
	env      campaign.Env
	atOnce   int

	mu       sync.Mutex
	progress progress
	wrong    []error
}

func (r *runner) path(ext string) string { return filepath.Join(dir, r.campaign.Name+ext) }

func (r *runner) run(ctx context.Context, fresh bool) error {
	alone, err := r.lock()
	if err != nil {
		return err
	}
	defer alone.Close()
	if err := r.begin(ctx, fresh); err != nil {
		return err
	}
	begun := time.Now()
	fmt.Printf("%s: %s\nseed %d; UNAVEZ_SEED=%d repeats this run\n", r.campaign.Name, r.campaign.About, r.progress.Seed, r.progress.Seed)
	r.env.Seed = r.progress.Seed
	r.env.Logf = func(format string, args ...any) { fmt.Printf("    "+format+"\n", args...) }
	units := make(chan campaign.Unit)
	var running sync.WaitGroup
	for range max(r.atOnce, 1) {
		running.Go(func() {
			for u := range units {
				r.unit(ctx, u)
			}
		})
	}
	for _, u := range r.campaign.Units(true) {
		if done, ok := r.done(u.Name); ok {
			fmt.Printf("  done before  %-44s %s\n", u.Name, done.Said)
			continue
		}
		select {
		case units <- u:
		case <-ctx.Done():
		}
	}
	close(units)
	running.Wait()
	if err := errors.Join(r.wrong...); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Printf("%s: proven, %s in this run, seed %d\n\n", r.campaign.Name, took(begun), r.progress.Seed)
	return nil
}

// lock keeps a second run of the campaign away for as long as the file is open.
func (r *runner) lock() (*os.File, error) {
	f, err := os.OpenFile(r.path(".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another run of %s is underway: %w", r.campaign.Name, err), f.Close())
	}
	return f, nil
}

// begin reads what was done, or begins anew: with another program nothing is done.
func (r *runner) begin(ctx context.Context, fresh bool) error {
	program, err := os.ReadFile(r.env.Binary)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(program)
	wanted := os.Getenv("UNAVEZ_SEED")
	seed, err := campaign.ParseSeed(wanted)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(r.path(".json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(raw, &r.progress); err != nil {
			return fmt.Errorf("reading %s: %w", r.path(".json"), err)
		}
	}
	old := r.progress.Program != hex.EncodeToString(digest[:]) || wanted != "" && r.progress.Seed != seed
	if fresh || old || len(r.progress.Done) == len(r.campaign.Units(true)) {
		r.progress = progress{
			Campaign: r.campaign.Name, Seed: seed, Program: hex.EncodeToString(digest[:]), Revision: revision(ctx),
			Begun: time.Now().UTC(), Done: map[string]result{},
		}
	}
	return r.save()
}

func (r *runner) done(unit string) (result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done, ok := r.progress.Done[unit]
	return done, ok
}

// save replaces the progress file as a whole.
func (r *runner) save() error {
	raw, err := json.Marshal(r.progress, jsontext.Multiline(true), json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path(".json.new"), raw, 0o644); err != nil {
		return err
	}
	return os.Rename(r.path(".json.new"), r.path(".json"))
}

// unit runs one unit; what it leaves behind is kept if it fails.
func (r *runner) unit(ctx context.Context, u campaign.Unit) {
	begun := time.Now()
	scratch, err := os.MkdirTemp("", "unavez-prove-")
	if err != nil {
		r.failed(u, err)
		return
	}
	said, err := u.Run(ctx, r.env.For(r.campaign.Name+"/"+u.Name, scratch))
	if err != nil {
		if ctx.Err() == nil {
			r.failed(u, fmt.Errorf("%w\n  left in %s", err, scratch))
		}
		return
	}
	fmt.Printf("  %8s  %-44s %s\n", took(begun), u.Name, said)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.Done[u.Name] = result{Said: said, Took: took(begun), At: time.Now().UTC()}
	if err := errors.Join(r.save(), os.RemoveAll(scratch)); err != nil {
		r.wrong = append(r.wrong, err)
	}
}

func (r *runner) failed(u campaign.Unit, err error) {
	fmt.Printf("  FAILED    %s: %v\n", u.Name, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Errorf("%s: %w", u.Name, err))
}
