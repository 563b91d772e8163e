package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"github.com/unavez/unavez/internal/cli"
)

// The secrets of the tests; none may ever be printed.
const (
	webhookSecret = "whsec_c2VjcmV0IG9mIHRoZSB3ZWJob29rcw"
	shopSecret    = "secret-of-the-shop-long-enough"
	adminSecret   = "secret-of-the-admin-long-enough"
	readSecret    = "secret-of-the-reader-long-enough"
)

var allSecrets = []string{webhookSecret, shopSecret, adminSecret, readSecret}

// within bounds every wait; it is a limit, not a pace.
const within = 60 * time.Second

func TestMain(m *testing.M) {
	code := m.Run()
	if builtAsked {
		if path, err := built(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// builtAsked says that a test wanted the program.
var builtAsked bool

// built builds the program once.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "unavez-cli-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "unavez")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "../../cmd/unavez").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return path, nil
})

func program(t *testing.T) string {
	t.Helper()
	path, err := built()
	builtAsked = true
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// place is a folder with a configuration, and the environment of commands.
type place struct {
	t      *testing.T
	folder string
	config string
	env    map[string]string
}

const configuration = `listen: {ingress: "127.0.0.1:0", private: "127.0.0.1:0"}
database: %q
tokens:
  - {name: boss, role: admin, secret: env:ADMIN_SECRET}
  - {name: reader, role: read, secret: env:READ_SECRET}
accounts:
  - {name: stripe-es, provider: stripe, mode: test, secrets: [env:WEBHOOK_SECRET], processing: sync}
log: {level: error, format: json}
`

func newPlace(t *testing.T, more string) *place {
	t.Helper()
	folder := t.TempDir()
	p := &place{t: t, folder: folder, config: filepath.Join(folder, "unavez.yaml"), env: map[string]string{
		"ADMIN_SECRET": adminSecret, "READ_SECRET": readSecret, "WEBHOOK_SECRET": webhookSecret, "SHOP_SECRET": shopSecret,
		"UNAVEZ_TOKEN": adminSecret,
	}}
	p.env["UNAVEZ_CONFIG"] = p.config
	p.write(fmt.Sprintf(configuration, filepath.Join(folder, "unavez.db")) + more)
	return p
}

func (p *place) write(text string) {
	p.t.Helper()
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// result is what a command left.
type result struct {
	t        *testing.T
	command  string
	code     int
	out, err string
}

// run runs a command in this process.
func (p *place) run(args ...string) result {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), within)
	defer cancel()
	var out, talk bytes.Buffer
	code := cli.Main(ctx, func() {}, args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &talk}, p.getenv)
	r := result{p.t, "unavez " + strings.Join(args, " "), code, out.String(), talk.String()}
	for _, secret := range allSecrets {
		if strings.Contains(r.out+r.err, secret) {
			p.t.Errorf("%s prints a secret", r.command)
		}
	}
	return r
}

func (p *place) getenv(name string) string { return p.env[name] }

// exits checks the exit code, and that a failure said something.
func (r result) exits(code int) result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("%s: exit code %d, want %d\n%s%s", r.command, r.code, code, r.out, r.err)
	}
	if code != 0 && strings.TrimSpace(r.err) == "" {
		r.t.Errorf("%s: fails without a word", r.command)
	}
	return r
}

// says checks for words on standard error.
func (r result) says(words ...string) result {
	r.t.Helper()
	for _, w := range words {
		if !strings.Contains(r.err, w) {
			r.t.Errorf("%s: standard error lacks %q:\n%s", r.command, w, r.err)
		}
	}
	return r
}

// prints checks for words on standard output.
func (r result) prints(words ...string) result {
	r.t.Helper()
	for _, w := range words {
		if !strings.Contains(r.out, w) {
			r.t.Errorf("%s: standard output lacks %q:\n%s", r.command, w, r.out)
		}
	}
	return r
}

// one checks that text is exactly one JSON value.
func one(t *testing.T, what, text string) {
	t.Helper()
	if !jsontext.Value(text).IsValid() {
		t.Errorf("%s is not one JSON value:\n%s", what, text)
	}
}

// parses checks that standard output is what the format says; a command that
// fails may leave it empty.
func (r result) parses(format string) result {
	r.t.Helper()
	if format == "json" && (r.out != "" || r.code == 0) {
		one(r.t, r.command+": standard output", r.out)
		return r
	}
	for line := range strings.Lines(r.out) {
		one(r.t, r.command+": a line of standard output", line)
	}
	return r
}

// first returns the first match of a pattern in standard output.
func (r result) first(pattern string) string {
	r.t.Helper()
	m := regexp.MustCompile(pattern).FindString(r.out)
	if m == "" {
		r.t.Fatalf("%s: nothing like %s on standard output:\n%s%s", r.command, pattern, r.out, r.err)
	}
	return m
}

// match returns the first match of a pattern in standard output, or "".
func (r result) match(pattern string) string { return regexp.MustCompile(pattern).FindString(r.out) }

// talk collects what a running command says, and wakes who waits for a word.
type talk struct {
	mu      sync.Mutex
	text    strings.Builder
	written chan struct{}
}

func newTalk() *talk { return &talk{written: make(chan struct{}, 1)} }

func (w *talk) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.written <- struct{}{}:
	default:
	}
	return w.text.Write(b)
}

func (w *talk) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await waits for a pattern and returns its last group.
func (w *talk) await(t *testing.T, pattern string, ended <-chan int) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		if m := re.FindStringSubmatch(w.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-w.written:
		case code := <-ended:
			t.Fatalf("ended with %d while waiting for %s:\n%s", code, pattern, w)
		case <-limit.C:
			t.Fatalf("no %s within %s:\n%s", pattern, within, w)
		}
	}
}

// running is a command that runs until it is interrupted.
type running struct {
	out, err *talk
	ended    chan int
	stop     context.CancelFunc
	// second is closed when a further signal would end the process.
	second chan struct{}
}

func (p *place) start(args ...string) *running {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	r := &running{out: newTalk(), err: newTalk(), ended: make(chan int, 1), stop: cancel, second: make(chan struct{})}
	var done sync.WaitGroup
	done.Go(func() {
		stop := sync.OnceFunc(func() { close(r.second) })
		r.ended <- cli.Main(ctx, stop, args, cli.Streams{In: strings.NewReader(""), Out: r.out, Err: r.err}, p.getenv)
	})
	p.t.Cleanup(func() { cancel(); done.Wait() })
	return r
}

// interrupt is a first signal; it returns the exit code.
func (r *running) interrupt(t *testing.T) int {
	t.Helper()
	r.stop()
	select {
	case code := <-r.ended:
		return code
	case <-time.After(within):
		t.Fatalf("does not end:\n%s", r.err)
		return -1
	}
}

// serve starts a server, and points the commands of the place to it.
func (p *place) serve(args ...string) *running {
	p.t.Helper()
	r := p.start(append([]string{"serve"}, args...)...)
	private := r.err.await(p.t, `private +(http://\S+)`, r.ended)
	ingress := r.err.await(p.t, `ingress +http://([^/\s]+)`, r.ended)
	p.env["UNAVEZ_SERVER"] = private
	p.env["UNAVEZ_LISTEN_INGRESS"] = ingress
	p.env["UNAVEZ_LISTEN_PRIVATE"] = strings.TrimPrefix(private, "http://")
	return r
}

// closedAddress is an address on which nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
