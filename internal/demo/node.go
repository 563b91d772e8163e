package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// account is the demonstration's account.
const account = "stripe-demo"

// node is the server under demonstration, in a process of its own.
type node struct {
	ingress, private string
	token, secret    string
	shopSecret       string
	config           string
	executable       string
	log              *os.File
	folder           string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan error
}

// configuration of the node; short leases, so that work of a killed process is
// taken up again soon.
const configuration = `listen: {ingress: %q, private: %q}
database: %q
admin_token_file: %q
tokens: [{name: demo, role: admin, secret: env:UNAVEZ_DEMO_TOKEN}]
accounts:
  - {name: %s, provider: stripe, mode: test, secrets: [env:UNAVEZ_DEMO_SECRET]}
destinations:
  - {name: shop, url: %q, types: ["*"], secret: env:UNAVEZ_DEMO_SHOP_SECRET, allow_private: true, timeout: 2s}
work: {entry_timeout: 1s, lease: 2s, poll: 100ms, backoff_base: 50ms, backoff_cap: 500ms, attempts: 20}
log: {level: warn, format: json}
`

// newNode writes the configuration into the folder.
func newNode(folder, executable, database string, shop *shop) (*node, error) {
	ingress, err := freeAddress()
	if err != nil {
		return nil, err
	}
	private, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if database == "" {
		database = filepath.Join(folder, "demo.db")
	}
	n := &node{
		ingress: ingress, private: private, token: "demo_" + rand.Text(), secret: "whsec_" + rand.Text(), shopSecret: shop.secret,
		config: filepath.Join(folder, "unavez.yaml"), executable: executable, folder: folder,
	}
	text := fmt.Sprintf(configuration, ingress, private, database, filepath.Join(folder, "admin-token"), account, shop.url)
	if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	if n.log, err = os.Create(filepath.Join(folder, "serve.log")); err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return n, nil
}

// freeAddress asks the kernel for a free port. Another program could take it
// before the node does; the node's start then fails, and says so.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (n *node) start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	cmd := exec.Command(n.executable, "serve", "--config", n.config)
	cmd.Env = append(foreign(os.Environ()), "UNAVEZ_DEMO_TOKEN="+n.token, "UNAVEZ_DEMO_SECRET="+n.secret,
		"UNAVEZ_DEMO_SHOP_SECRET="+n.shopSecret)
	cmd.Stderr, cmd.Stdout = n.log, n.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	n.cmd, n.ended = cmd, ended
	return n.await(ctx)
}

// foreign is the environment without what would change the configuration: a
// database of somebody's own that is named there is not to be played in.
func foreign(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "UNAVEZ_") })
}

// await polls readiness; a process that ends is an error with its last words.
func (n *node) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.private+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-n.ended:
			n.ended <- err
			return fmt.Errorf("the server ended: %v\n%s", err, n.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("the server does not become ready: %w\n%s", ctx.Err(), n.lastWords())
		case <-time.After(readyPoll):
		}
	}
}

func (n *node) lastWords() string {
	f, err := os.Open(n.log.Name())
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// kill ends the process with SIGKILL, as a machine that loses power does.
func (n *node) kill() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return nil
	}
	err := n.cmd.Process.Kill()
	<-n.ended
	n.cmd = nil
	return err
}

// stop ends the process softly, and hard if that takes too long.
func (n *node) stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return n.log.Close()
	}
	_ = n.cmd.Process.Signal(os.Interrupt)
	var err error
	select {
	case err = <-n.ended:
	case <-time.After(stopWithin):
		err = errors.Join(errors.New("the server did not stop in time"), n.cmd.Process.Kill())
		<-n.ended
	}
	n.cmd = nil
	return errors.Join(err, n.log.Close())
}
