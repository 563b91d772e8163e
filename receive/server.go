package receive

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// writeSlack is what an answer may take beside reading and waiting.
const writeSlack = 5 * time.Second

// NewServer returns a server for the handler with the limits on headers, idle
// connections and answers. Serve it on a listener from Listen, which bounds
// the connections.
func NewServer(h http.Handler, limits Limits, logger *slog.Logger) *http.Server {
	limits = limits.Filled()
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: limits.HeaderTimeout,
		WriteTimeout:      limits.BodyTimeout + limits.AcknowledgeWithin + writeSlack,
		IdleTimeout:       limits.IdleTimeout,
		MaxHeaderBytes:    limits.HeaderBytesMax,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

// Listen listens on a TCP address and accepts at most ConnectionsMax
// connections at a time; more wait until one closes.
func Listen(ctx context.Context, address string, limits Limits) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("receive: listening on %s: %w", address, err)
	}
	return Limit(l, limits.Filled().ConnectionsMax), nil
}

// Limit bounds the connections that are open at once on the listener.
func Limit(l net.Listener, connectionsMax int) net.Listener {
	return &limited{Listener: l, room: make(chan struct{}, connectionsMax), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	room   chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Accept waits for room, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &conn{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

// Close stops accepting; open connections stay.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type conn struct {
	net.Conn
	leave func()
}

func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
