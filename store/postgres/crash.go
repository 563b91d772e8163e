package postgres

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/unavez/unavez/internal/crashpoint"
)

// crashConn marks a place when the next message has been handed to the
// network: the server acts on it, and nobody has seen its answer. Sessions have
// one only in a program that is built to crash.
type crashConn struct {
	net.Conn
	place atomic.Pointer[string]
}

func (c *crashConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if place := c.place.Swap(nil); place != nil && err == nil {
		crashpoint.Hit(*place)
	}
	return n, err
}

// crashDial lets the sessions of a program that is built to crash be struck.
func crashDial(dial pgconn.DialFunc) pgconn.DialFunc {
	if !crashpoint.Enabled {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &crashConn{Conn: conn}, nil
	}
}

// crashAfterSending marks the place when the session's next message is sent.
func crashAfterSending(raw *pgconn.PgConn, place string) {
	if c, ok := raw.Conn().(*crashConn); ok && place != "" {
		c.place.Store(&place)
	}
}
