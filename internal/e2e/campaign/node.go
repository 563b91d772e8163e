package campaign

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/unavez/unavez/internal/crashpoint"
)

// Build builds the program, able to crash at named places, into dir.
func Build(ctx context.Context, root, dir string, race bool) (string, error) {
	binary := filepath.Join(dir, "unavez-crashpoint")
	args := []string{"build", "-buildvcs=false", "-tags", "crashpoint", "-o", binary}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, program)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return binary, nil
}

// program is the package of the program under proof.
const program = "./cmd/unavez"

// node is one running process of the program.
type node struct {
	cmd              *exec.Cmd
	ingress, private string
	log              *os.File
	ended            chan struct{}
	state            *os.ProcessState
}

// crash says where a process is to end or to stand still; the zero value nowhere.
type crash struct {
	place string
	nth   int
	stop  bool
}

func (c crash) environment() []string {
	if c.place == "" {
		return nil
	}
	action := "kill"
	if c.stop {
		action = "stop"
	}
	return []string{fmt.Sprintf("%s=%s:%d", crashpoint.Variable, c.place, c.nth), crashpoint.ActionVariable + "=" + action}
}

// readyWithin bounds the wait for a process to serve. It is generous: nothing
// is claimed about speed.
const readyWithin = 2 * time.Minute

// startNode starts the program with the configuration and waits until it
// serves, or until it has met its place on the way there.
func startNode(ctx context.Context, e *Env, config string, env []string, c crash) (*node, error) {
	log, err := os.OpenFile(filepath.Join(e.Dir, "node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	n := &node{cmd: exec.CommandContext(ctx, e.Binary, "serve", "--config", config), log: log, ended: make(chan struct{})}
	n.cmd.Env = append(append(os.Environ(), env...), c.environment()...)
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	talk, err := n.cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := n.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the program: %w", err), log.Close())
	}
	addresses := make(chan [2]string, 1)
	go n.listen(talk, addresses)
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	select {
	case a := <-addresses:
		n.ingress, n.private = a[0], a[1]
	case <-n.ended:
		return n, n.unready(c)
	case <-ctx.Done():
		n.kill()
		return nil, fmt.Errorf("the program did not say where it listens; see %s", log.Name())
	}
	return n, n.waitReady(ctx, c)
}

// unready is the error of a process that ended before it served: none if that
// is what it was told.
func (n *node) unready(c crash) error {
	if c.place != "" && n.killed() {
		return nil
	}
	return fmt.Errorf("the program ended before it served: %v; see %s", n.state, n.log.Name())
}

// listen copies the program's talk to the log, finds the addresses in it, and
// waits for the process to end.
func (n *node) listen(talk io.Reader, addresses chan<- [2]string) {
	var found [2]string
	lines := bufio.NewReader(talk)
	for {
		line, err := lines.ReadString('\n')
		_, _ = n.log.WriteString(line)
		if rest, ok := strings.CutPrefix(line, "ingress"); ok {
			found[0] = "http://" + between(rest, "http://", "/")
		}
		if rest, ok := strings.CutPrefix(line, "private"); ok {
			found[1] = "http://" + between(rest, "http://", "/")
			addresses <- found
		}
		if err != nil {
			break
		}
	}
	_ = n.cmd.Wait() // its state says what came of it
	n.state = n.cmd.ProcessState
	_ = n.log.Close()
	close(n.ended)
}

func between(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return strings.TrimSpace(text)
}

func (n *node) waitReady(ctx context.Context, c crash) error {
	for {
		if n.serves(ctx) {
			return nil
		}
		select {
		case <-n.ended:
			return n.unready(c)
		case <-ctx.Done():
			n.kill()
			return fmt.Errorf("the program was not ready in time; see %s", n.log.Name())
		case <-time.After(pollEvery):
			if n.stopped() {
				return nil
			}
		}
	}
}

// pollEvery is the pause between two looks at something that tells nobody.
const pollEvery = 10 * time.Millisecond

func (n *node) serves(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.private+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}

// killed says whether the process ended by SIGKILL.
func (n *node) killed() bool {
	status, ok := n.state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// gone says whether the process has ended.
func (n *node) gone() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// stopped says whether the process stands still.
func (n *node) stopped() bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		return false
	}
	text := string(raw)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	return len(fields) > 0 && fields[0] == "T"
}

// goOn wakes a process that stands still.
func (n *node) goOn() error { return n.cmd.Process.Signal(syscall.SIGCONT) }

// kill ends the process at once and waits for its end.
func (n *node) kill() {
	_ = n.cmd.Process.Kill() // it may have ended by itself
	<-n.ended
}

// stop asks the process to end in order, and is an error unless it does.
func (n *node) stop() error {
	if n.gone() {
		return fmt.Errorf("the program ended by itself: %v; see %s", n.state, n.log.Name())
	}
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.ended:
	case <-time.After(readyWithin):
		n.kill()
		return fmt.Errorf("the program did not end when it was asked to; see %s", n.log.Name())
	}
	if !n.state.Success() {
		return fmt.Errorf("the program ended with %v; see %s", n.state, n.log.Name())
	}
	return nil
}
