package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	defaultServer   = "http://127.0.0.1:8081"
	answerBytesMax  = 64 << 20
	requestWithin   = 60 * time.Second
	tokenBytesMax   = 4 << 10
	adminTokenFile  = "unavez-admin-token"
	userAgentClient = "unavez-cli"
)

// problemError is a refusal of the API.
type problemError struct {
	Type      string  `json:"type,omitzero"`
	Title     string  `json:"title"`
	Status    int     `json:"status,omitzero"`
	Detail    string  `json:"detail,omitzero"`
	Code      string  `json:"code"`
	RequestID string  `json:"request_id,omitzero"`
	Errors    []fault `json:"errors,omitzero"`
}

// fault is one of several things that are wrong.
type fault struct {
	Pointer string `json:"pointer,omitzero"`
	Detail  string `json:"detail"`
}

func (p *problemError) Error() string {
	text := p.Title
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	for _, e := range p.Errors {
		if strings.Contains(p.Detail, e.Detail) {
			continue
		}
		text += "; " + strings.TrimPrefix(e.Pointer, "/") + " " + e.Detail
	}
	if p.Code != "" {
		text += " (" + p.Code + ")"
	}
	return text
}

// token finds the API token: the environment, a named file, or the file that
// the first start of a server wrote here.
func (a *app) token() (string, error) {
	if v := a.getenv("UNAVEZ_TOKEN"); v != "" && a.tokenFile == "" {
		return v, nil
	}
	path := a.tokenFile
	if path == "" {
		path = a.getenv("UNAVEZ_TOKEN_FILE")
	}
	named := path != ""
	if !named {
		path = adminTokenFile
	}
	f, err := os.Open(path)
	if err != nil {
		if named {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		return "", &exitError{exitForbidden, errors.New("no token: set UNAVEZ_TOKEN or UNAVEZ_TOKEN_FILE, or name a file with --token-file; " +
			"the first start of a server wrote one to " + adminTokenFile + " beside its database")}
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, tokenBytesMax))
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// serverNamed says whether a flag or the environment names the server.
func (a *app) serverNamed() bool { return a.server != "" || a.getenv("UNAVEZ_SERVER") != "" }

// dialable turns an address that is listened on into one that can be called.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

func (a *app) serverURL() string {
	if a.server != "" {
		return strings.TrimSuffix(a.server, "/")
	}
	if v := a.getenv("UNAVEZ_SERVER"); v != "" {
		return strings.TrimSuffix(v, "/")
	}
	return defaultServer
}

// call sends a request and returns the body of a success.
func (a *app) call(ctx context.Context, method, path string, query url.Values, body any) (raw []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	token, err := a.token()
	if err != nil {
		return nil, 0, err
	}
	target := a.serverURL() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body, json.Deterministic(true))
		if err != nil {
			return nil, 0, fmt.Errorf("encoding the request: %w", err)
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, payload)
	if err != nil {
		return nil, 0, usage("the server's URL cannot be used: %v", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("User-Agent", userAgentClient)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("no answer from %s (is unavez serve running there? --server and UNAVEZ_SERVER name another): %w", a.serverURL(), bare(err))
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, answerBytesMax))
	if err != nil {
		return nil, resp.StatusCode, fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return nil, resp.StatusCode, problem(resp.StatusCode, raw)
	}
	return raw, resp.StatusCode, nil
}

// bare takes the method and the URL off a client's error.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func problem(status int, raw []byte) error {
	p := &problemError{}
	if err := json.Unmarshal(raw, p); err != nil || p.Title == "" {
		p = &problemError{Title: http.StatusText(status), Code: "http"}
	}
	p.Status = status
	return p
}

// get reads one document.
func (a *app) get(ctx context.Context, path string, query url.Values) (jsontext.Value, error) {
	raw, _, err := a.call(ctx, http.MethodGet, path, query, nil)
	return jsontext.Value(raw), err
}

// page is a list's answer.
type page struct {
	Data    []jsontext.Value `json:"data"`
	HasMore bool             `json:"has_more"`
}

// list reads up to limit rows, page by page; 0 is all of them. An error of each
// ends it.
func (a *app) list(ctx context.Context, path string, query url.Values, limit int, each func(jsontext.Value) error) (more bool, err error) {
	const pageRows = 100
	query = cloneQuery(query)
	for got := 0; ; {
		want := pageRows
		if limit > 0 {
			want = min(pageRows, limit-got)
		}
		query.Set("limit", fmt.Sprint(want))
		raw, err := a.get(ctx, path, query)
		if err != nil {
			return false, err
		}
		var p page
		if err := json.Unmarshal(raw, &p); err != nil {
			return false, fmt.Errorf("reading a list: %w", err)
		}
		for _, row := range p.Data {
			if err := each(row); err != nil {
				return false, err
			}
		}
		got += len(p.Data)
		if !p.HasMore || len(p.Data) == 0 || limit > 0 && got >= limit {
			return p.HasMore, nil
		}
		var last struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		}
		if err := json.Unmarshal(p.Data[len(p.Data)-1], &last); err != nil {
			return false, fmt.Errorf("reading a list: %w", err)
		}
		// What has no id is paged by its name.
		query.Set("starting_after", cmp.Or(last.ID, last.Name))
	}
}

// listWhole reads a list that is not paged; it has the form of list.
func (a *app) listWhole(ctx context.Context, path string, query url.Values, _ int, each func(jsontext.Value) error) (more bool, err error) {
	raw, err := a.get(ctx, path, query)
	if err != nil {
		return false, err
	}
	p, err := readPage(raw)
	for _, row := range p.Data {
		if err := each(row); err != nil {
			return false, err
		}
	}
	return p.HasMore, err
}

func cloneQuery(q url.Values) url.Values {
	out := url.Values{}
	for k, v := range q {
		out[k] = append([]string{}, v...)
	}
	return out
}
