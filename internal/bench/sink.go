package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// sinkConcurrency is how many deliveries to the sink may be underway at once.
const sinkConcurrency = 32

// sink is the merchant's system: it takes every message, and counts each once.
type sink struct {
	url      string
	server   *http.Server
	serving  sync.WaitGroup
	mu       sync.Mutex
	messages map[string]bool
}

func newSink() (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{url: "http://" + listener.Addr().String() + "/", messages: map[string]bool{}}
	s.server = &http.Server{Handler: http.HandlerFunc(s.take)}
	s.serving.Go(func() { _ = s.server.Serve(listener) }) // it ends by Shutdown
	return s, nil
}

func (s *sink) take(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.messages[r.Header.Get("webhook-id")] = true
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

// count is the number of distinct messages that arrived.
func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.messages)
}

func (s *sink) close(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	s.serving.Wait()
	return err
}
