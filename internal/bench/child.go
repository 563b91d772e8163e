package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/go-json-experiment/json"
)

// childCommand is the first argument of the process under test.
const childCommand = "child"

// spec says what the process under test is to be.
type spec struct {
	// Kind is naive, verify (verifies and stores nothing) or unavez.
	Kind     string
	Database string
	// Receive, Work and Deliver start these stages of unavez.
	Receive, Work, Deliver bool
	// Forget leaves out the cache of committed identities.
	Forget bool
	// Alone applies each event in a transaction of its own.
	Alone bool
	// Sink is where messages are delivered; none are rendered if it is empty.
	Sink string
	// Profile is the file for a CPU profile, if any.
	Profile string
}

func (s spec) String() string {
	switch {
	case s.Kind != "unavez":
		return s.Kind
	case s.Sink != "":
		return "unavez+messages"
	case s.Forget:
		return "unavez-cache"
	case !s.Work:
		return "unavez receive"
	}
	return s.Kind
}

// child is a running process under test.
type child struct {
	address string
	pid     int
	cmd     *exec.Cmd
	stdin   io.Closer
}

// start starts a process under test and waits until it listens.
func start(ctx context.Context, s spec) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, childCommand, string(raw))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the server under test: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = cmd.Wait() // its own message says more
		return nil, fmt.Errorf("waiting for the server under test: %w", err)
	}
	return &child{address: strings.TrimSpace(line), pid: cmd.Process.Pid, cmd: cmd, stdin: stdin}, nil
}

// stop lets the process end in order, and waits for it.
func (c *child) stop() error {
	if err := c.stdin.Close(); err != nil {
		return err
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("stopping the server under test: %w", err)
	}
	return nil
}
