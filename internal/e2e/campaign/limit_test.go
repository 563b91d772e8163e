package campaign

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/store/storetest"
)

// R6.7: the server does not start with a lease that is shorter than twice the
// time limit of an entry.
func TestShortLeaseDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	text := configuration(filepath.Join(dir, "ledger.db"), "http://127.0.0.1:1/", options{entry: time.Second})
	text = strings.Replace(text, "lease: 2s", "lease: 1900ms", 1)
	config := filepath.Join(dir, "unavez.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "serve", "--config", config)
	cmd.Env = append(os.Environ(), "E2E_TOKEN="+apiToken, "E2E_SHOP="+shopSecret, "E2E_ENDPOINT="+string(endpointSecret))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "work.lease") {
		t.Errorf("serve: %v\n%s", err, out)
	}
}

// R6.7: a step that takes longer than one entry may is not committed; the entry
// is tried again.
func TestTimeLimitOfAnEntry(t *testing.T) {
	for _, kind := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := &Env{Seed: 1, Dir: t.TempDir(), Postgres: pgtest.Server(t)}
			s, drop, err := openLedger(t.Context(), e, kind)
			if err != nil {
				t.Fatal(err)
			}
			defer drop()
			slow := storetest.NewFault(s)
			b, err := newBedWithin(t.Context(), slow, 300*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.engine.Inbox.Stop(context.WithoutCancel(t.Context())) }()
			if err := b.register(account, 0); err != nil {
				t.Fatal(err)
			}
			in := renamed("pi_tooslow00", 0)
			b.deliver(account, succeeded("evt_"+in, in, renamed(lifeOrder, 0), 10000).Body)
			var once sync.Once
			slow.Arm(storetest.Rule{Call: "Save", Do: func() { once.Do(func() { time.Sleep(600 * time.Millisecond) }) }})
			if b.engine.Applier.WorkOnce(t.Context()); slow.Fired() == 0 {
				t.Fatal("no step was held")
			}
			if saves := slow.Calls()["Save"]; saves < 2 {
				t.Errorf("a step that took twice as long as it may was saved %d times, want another try", saves)
			}
			slow.Arm()
			b.work()
			if o, err := b.outcome(0); err != nil || o.fulfilled != 1 {
				t.Errorf("the order came to %+v, %v", o, err)
			}
		})
	}
}
