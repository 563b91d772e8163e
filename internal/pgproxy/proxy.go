package pgproxy

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
)

// Kind is how a step fails.
type Kind int

// The kinds of faults.
const (
	// Refuse answers with an error of the code; the server's transaction fails,
	// and at COMMIT is rolled back. The session lives.
	Refuse Kind = iota
	// Fatal answers with the code and ends the session; the server never sees
	// the step.
	Fatal
	// CutBefore ends the session; the server never sees the step.
	CutBefore
	// CutAfter ends the session when the server has done the step and answered.
	CutAfter
	// Warn lets the step through and sends a warning of the code with the answer.
	Warn
)

// Fault is what is to happen, once.
type Fault struct {
	// Step is which of the client's steps fails, counted over all sessions since
	// Arm, from 1. A step is a connection attempt, a query, a statement that is
	// prepared, or one that is executed. Zero is the next COMMIT.
	Step int
	Kind Kind
	// Code is the SQLSTATE of Refuse, Fatal and Warn.
	Code string
}

// Proxy is a listening proxy. It is safe for concurrent use.
type Proxy struct {
	server   string
	url      string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	links  []*link
	fault  *Fault
	steps  int
	fired  bool
	closed bool
}

// Start listens on loopback for sessions with the server of the URL, which must
// name a TCP address and must not want TLS.
func Start(server string) (*Proxy, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return nil, errors.New("pgproxy: the server must be a URL with a host")
	}
	p := &Proxy{server: u.Host}
	if u.Port() == "" {
		p.server = net.JoinHostPort(u.Hostname(), "5432")
	}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("pgproxy: listening: %w", err)
	}
	u.Host = p.listener.Addr().String()
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	p.url = u.String()
	p.wg.Go(p.accept)
	return p, nil
}

// URL is the server's URL through the proxy.
func (p *Proxy) URL() string { return p.url }

// Arm sets the next fault and begins to count steps anew.
func (p *Proxy) Arm(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.steps, p.fired = &f, 0, false
}

// Disarm takes the fault back and says whether it has happened.
func (p *Proxy) Disarm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = nil
	return p.fired
}

// Steps is the number of steps since Arm.
func (p *Proxy) Steps() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.steps
}

// CutAll ends every session, as a restart of the server or the network does.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	links := slices.Clone(p.links)
	p.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}

// Close ends every session and waits for the proxy's goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.CutAll()
	p.wg.Wait()
	return err
}

// step counts a step and returns the fault that strikes it, if any.
func (p *Proxy) step(commit bool) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps++
	f := p.fault
	if f == nil || f.Step != p.steps && !(f.Step == 0 && commit) {
		return nil
	}
	p.fault, p.fired = nil, true
	return f
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		l := &link{proxy: p, client: client, server: server}
		if !p.add(l) {
			l.cut()
			return
		}
		p.wg.Go(func() {
			defer p.remove(l)
			defer l.cut()
			l.fromClient()
		})
		p.wg.Go(func() {
			defer l.cut()
			l.fromServer()
		})
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links = append(p.links, l)
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links = slices.DeleteFunc(p.links, func(o *link) bool { return o == l })
}
