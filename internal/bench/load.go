package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// answerWithin is the longest that one answer may take.
	answerWithin = 30 * time.Second
	readBytes    = 4 << 10
)

// answered is what the callers saw of one load.
type answered struct {
	count    int
	elapsed  time.Duration
	p50, p99 time.Duration
}

func (a answered) perSecond() float64 { return float64(a.count) / a.elapsed.Seconds() }

// load sends the requests over so many connections, each with one request
// underway, and waits for all answers. An answer other than 2xx is an error:
// a server that refuses would look fast.
func load(ctx context.Context, address string, connections int, requests [][]byte) (answered, error) {
	connections = min(connections, len(requests))
	conns := make([]*caller, connections)
	for i := range conns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return answered{}, fmt.Errorf("connecting to the server under test: %w", err)
		}
		defer c.Close()
		conns[i] = &caller{conn: c, read: bufio.NewReaderSize(c, readBytes)}
	}
	took := make([]time.Duration, len(requests))
	var next atomic.Int64
	var wg sync.WaitGroup
	failures := make([]error, connections)
	begun := time.Now()
	for i, c := range conns {
		wg.Go(func() {
			for ctx.Err() == nil && failures[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= len(requests) {
					return
				}
				sent := time.Now()
				failures[i] = c.post(requests[n])
				took[n] = time.Since(sent)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begun)
	if err := errors.Join(failures...); err != nil {
		return answered{}, fmt.Errorf("posting events: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return answered{}, err
	}
	slices.Sort(took)
	return answered{count: len(took), elapsed: elapsed, p50: took[len(took)/2], p99: took[len(took)*99/100]}, nil
}

// caller is one kept-alive connection. It speaks just enough HTTP/1.1 to leave
// the machine to the server under test.
type caller struct {
	conn net.Conn
	read *bufio.Reader
}

func (c *caller) post(request []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	status, err := c.read.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 2")) {
		return fmt.Errorf("answer %q", bytes.TrimSpace(status))
	}
	length := int64(-1)
	for {
		line, err := c.read.ReadSlice('\n')
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if strings.EqualFold(string(name), "Content-Length") {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("an answer without Content-Length")
	}
	_, err = io.CopyN(io.Discard, c.read, length)
	return err
}
