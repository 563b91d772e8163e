package receive_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/receive"
)

func readAnswer(t *testing.T, c net.Conn) *http.Response {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// closed waits until the other side has closed the connection.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection stays open: %v", err)
	}
}

// A body that does not come is given up, whether it is wanted or only to be
// thrown away.
func TestSlowBody(t *testing.T) {
	e := newEdge(t, change{limits: receive.Limits{BodyTimeout: 50 * time.Millisecond}})
	c := e.dial(t, head("Content-Length: 1000")+"begin")
	if resp := readAnswer(t, c); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", resp.StatusCode)
	}
	closed(t, c)
	c = e.dial(t, head("Transfer-Encoding: chunked")+"5\r\nbegin\r\n")
	if resp := readAnswer(t, c); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("chunked: status %d", resp.StatusCode)
	}
	closed(t, c)
	c = e.dial(t, strings.Replace(head("Content-Length: 1000"), "shop", "nobody", 1)+"begin")
	if resp := readAnswer(t, c); resp.StatusCode != http.StatusNotFound {
		t.Errorf("unknown account: status %d", resp.StatusCode)
	}
	closed(t, c)
	if got := len(e.stored(t)); got != 0 {
		t.Errorf("%d entries", got)
	}
}

func TestSlowHeaders(t *testing.T) {
	e := newEdge(t, change{limits: receive.Limits{HeaderTimeout: 50 * time.Millisecond, IdleTimeout: 50 * time.Millisecond}})
	closed(t, e.dial(t, "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\n"))
	closed(t, e.dial(t, ""))
}

// The body's deadline does not outlive the body: a request that waits for its
// commit longer than that is not taken for a caller that hung up.
func TestDeadlineEndsWithTheBody(t *testing.T) {
	held := &hold{gate: make(chan struct{})}
	e := newEdge(t, change{limits: receive.Limits{BodyTimeout: 250 * time.Millisecond}, wrap: held.over})
	time.AfterFunc(600*time.Millisecond, func() { close(held.gate) })
	if got := e.post(t, "shop", signed(oldSecret, "e1 1")); got.status != 200 {
		t.Errorf("%d %q", got.status, got.body)
	}
}

func TestLargeHeaders(t *testing.T) {
	e := newEdge(t, change{})
	c := e.dial(t, head("X-Large: "+strings.Repeat("x", 64<<10)))
	if resp := readAnswer(t, c); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// A caller that hangs up in the middle leaves nothing, and nobody else notices.
func TestHangUp(t *testing.T) {
	e := newEdge(t, change{})
	for range 20 {
		body := signed(oldSecret, "left 1")
		e.dial(t, head("Content-Length: 1000")+body).Close()
	}
	if got := e.post(t, "shop", signed(oldSecret, "e1 1")); got.status != 200 {
		t.Errorf("%d %q", got.status, got.body)
	}
	eventually(t, "all gone", func() bool { return strings.Count(e.log.String(), "body ended early") == 20 })
	if got := e.stored(t); len(got) != 1 {
		t.Errorf("%d entries", len(got))
	}
}

// Bodies in flight share a bounded room; who finds none is told to come back.
// What is announced and not sent takes little room.
func TestBodiesInFlightAreBounded(t *testing.T) {
	e := newEdge(t, change{limits: receive.Limits{BodyBytesMax: 100 << 10, InFlightBytesMax: 200 << 10}})
	for range 3 {
		e.dial(t, head("Content-Length: 100000"))
	}
	if got := e.post(t, "shop", signed(oldSecret, "e1 1")); got.status != 200 {
		t.Errorf("while much is announced: %d %q", got.status, got.body)
	}
	large := e.dial(t, head("Content-Length: 100000"))
	if _, err := large.Write(bytes.Repeat([]byte("x"), 90_000)); err != nil {
		t.Fatal(err)
	}
	big := signed(oldSecret, "e2 "+strings.Repeat("x", 90_000))
	eventually(t, "no room for a second one", func() bool {
		got := e.post(t, "shop", big)
		if got.status == 503 && got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		return got.status == 503
	})
	large.Close()
	eventually(t, "room again", func() bool { return e.post(t, "shop", big).status == 200 })
}

// One account cannot crowd out the others.
func TestRequestsOfAnAccountAreBounded(t *testing.T) {
	second := shop()
	second.Name = "second"
	e := newEdge(t, change{accounts: []receive.Account{shop(), second}, limits: receive.Limits{AccountInFlightMax: 2}})
	var held []net.Conn
	for range 2 {
		held = append(held, e.dial(t, head("Content-Length: 1000")+"begin"))
	}
	eventually(t, "the account is full", func() bool {
		got := e.post(t, "shop", signed(oldSecret, "e1 1"))
		if got.status == 429 && got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		return got.status == 429
	})
	if got := e.post(t, "second", signed(oldSecret, "e1 1")); got.status != 200 {
		t.Errorf("the other account: %d %q", got.status, got.body)
	}
	for _, c := range held {
		c.Close()
	}
	eventually(t, "room again", func() bool { return e.post(t, "shop", signed(oldSecret, "e1 1")).status == 200 })
}

func TestConnectionsAreBounded(t *testing.T) {
	e := newEdge(t, change{limits: receive.Limits{ConnectionsMax: 1}})
	first := e.dial(t, head("Content-Length: 0"))
	if resp := readAnswer(t, first); resp.StatusCode != 400 {
		t.Errorf("status %d", resp.StatusCode)
	}
	second := e.dial(t, head("Content-Length: 0"))
	if err := second.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := second.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes while the first connection is open", n)
	}
	first.Close()
	if resp := readAnswer(t, second); resp.StatusCode != 400 {
		t.Errorf("status %d", resp.StatusCode)
	}
}
