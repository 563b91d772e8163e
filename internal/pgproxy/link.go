package pgproxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// Codes of the first message of a connection, and of messages.
const (
	codeSSL    = 80877103
	codeGSS    = 80877104
	codeCancel = 80877102

	typeQuery    = 'Q'
	typeParse    = 'P'
	typeExecute  = 'E'
	typeSync     = 'S'
	typeReady    = 'Z'
	typeError    = 'E'
	typeNotice   = 'N'
	typeComplete = 'C'
)

// messageBytesMax bounds what is read as one message.
const messageBytesMax = 64 << 20

var errProtocol = errors.New("pgproxy: not the protocol of PostgreSQL")

// link is one session through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	writing        sync.Mutex // of the client's side
	// mute keeps the server's answers from the client; the link ends when the
	// server is ready again.
	mute atomic.Bool
	// replace answers the next completed command with this message instead.
	replace atomic.Pointer[message]
}

// message is one message with its type; the first message of a connection has none.
type message struct {
	kind byte
	body []byte
}

func (m message) bytes() []byte {
	var out []byte
	if m.kind != 0 {
		out = append(out, m.kind)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(m.body)+4))
	return append(out, m.body...)
}

func read(r io.Reader, typed bool) (m message, err error) {
	var head [5]byte
	from := 1
	if typed {
		from = 0
	}
	if _, err := io.ReadFull(r, head[from:]); err != nil {
		return m, err
	}
	if typed {
		m.kind = head[0]
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > messageBytesMax {
		return m, errProtocol
	}
	m.body = make([]byte, length-4)
	_, err = io.ReadFull(r, m.body)
	return m, err
}

func (l *link) cut() {
	l.client.Close()
	l.server.Close()
}

func (l *link) toClient(m message) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.client.Write(m.bytes())
	return err
}

func (l *link) toServer(m message) error {
	_, err := l.server.Write(m.bytes())
	return err
}

// fromClient passes the client's messages on until one is struck by a fault
// that ends the session, or the session ends by itself.
func (l *link) fromClient() {
	if l.startup() != nil {
		return
	}
	for {
		m, err := read(l.client, true)
		if err != nil {
			return
		}
		if f := l.struck(m); f != nil {
			err = l.strike(f, m)
		} else {
			err = l.toServer(m)
		}
		if err != nil {
			return
		}
	}
}

// startup passes the first message on, after refusing encryption.
func (l *link) startup() error {
	for {
		m, err := read(l.client, false)
		if err != nil || len(m.body) < 4 {
			return errProtocol
		}
		switch binary.BigEndian.Uint32(m.body) {
		case codeSSL, codeGSS:
			if _, err := l.client.Write([]byte{'N'}); err != nil {
				return err
			}
			continue
		case codeCancel:
			if err := l.toServer(m); err != nil {
				return err
			}
			// The server closes when it has passed the request on.
			_, err := io.Copy(io.Discard, l.client)
			return errors.Join(errProtocol, err)
		}
		f := l.proxy.step(false)
		switch {
		case f == nil, f.Kind == Warn, f.Kind == CutAfter:
			return l.toServer(m)
		case f.Kind == CutBefore:
			return errProtocol
		}
		return l.kill(f)
	}
}

// struck counts a step and returns its fault.
func (l *link) struck(m message) *Fault {
	switch m.kind {
	case typeQuery, typeParse, typeExecute:
		return l.proxy.step(isCommit(m))
	}
	return nil
}

func isCommit(m message) bool {
	text := m.body
	if m.kind == typeParse { // a name, then the statement
		_, text, _ = bytes.Cut(text, []byte{0})
	} else if m.kind != typeQuery {
		return false
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	return strings.EqualFold(strings.TrimSpace(string(text)), "commit")
}

var errCut = errors.New("pgproxy: cut")

func (l *link) strike(f *Fault, m message) error {
	switch f.Kind {
	case CutBefore:
		return errCut
	case Fatal:
		return l.kill(f)
	case CutAfter:
		l.mute.Store(true)
		return l.toServer(m)
	case Warn:
		return errors.Join(l.toClient(response(typeNotice, "WARNING", f.Code)), l.toServer(m))
	}
	return l.refuse(f, m)
}

// kill answers that the session ends, and waits until the client has closed:
// closing first could overtake the answer.
func (l *link) kill(f *Fault) error {
	err := l.toClient(response(typeError, "FATAL", f.Code))
	if err == nil {
		_, err = io.Copy(io.Discard, l.client)
	}
	return errors.Join(errCut, err)
}

// refuse swallows the rest of what the client sent together, and lets the
// server fail in its place, so that both know the same of the transaction.
func (l *link) refuse(f *Fault, m message) error {
	statement := "DO $$BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '" + f.Code + "'; END$$"
	if isCommit(m) {
		answer := response(typeError, "ERROR", f.Code)
		l.replace.Store(&answer)
		statement = "ROLLBACK"
	}
	for next := m; next.kind != typeQuery && next.kind != typeSync; {
		var err error
		if next, err = read(l.client, true); err != nil {
			return err
		}
	}
	return l.toServer(message{typeQuery, append([]byte(statement), 0)})
}

func (l *link) fromServer() {
	for {
		m, err := read(l.server, true)
		if err != nil {
			return
		}
		if l.mute.Load() {
			if m.kind == typeReady {
				return
			}
			continue
		}
		if m.kind == typeComplete {
			if answer := l.replace.Swap(nil); answer != nil {
				m = *answer
			}
		}
		if l.toClient(m) != nil {
			return
		}
	}
}

// response is an error or a notice.
func response(kind byte, severity, code string) message {
	var body []byte
	for _, field := range []string{"S" + severity, "V" + severity, "C" + code, "Minjected"} {
		body = append(append(body, field...), 0)
	}
	return message{kind, append(body, 0)}
}
