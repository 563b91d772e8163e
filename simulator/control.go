package simulator

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
)

func (s *Server) controlRoutes(mux *http.ServeMux) {
	for pattern, handle := range map[string]func(*http.Request) (any, error){
		"GET /_simulator/books":          s.controlBooks,
		"GET /_simulator/deliveries":     func(*http.Request) (any, error) { return s.Deliveries(), nil },
		"GET /_simulator/faults":         func(*http.Request) (any, error) { return object{"data": s.Faults()}, nil },
		"POST /_simulator/faults":        s.controlInject,
		"DELETE /_simulator/faults":      s.controlClear,
		"DELETE /_simulator/faults/{id}": s.controlClear,
		"POST /_simulator/trigger":       s.controlTrigger,
		"POST /_simulator/flush":         func(*http.Request) (any, error) { return object{"flushed": s.Flush()}, nil },
		"POST /_simulator/release":       func(*http.Request) (any, error) { return object{"released": s.Release()}, nil },
		"POST /_simulator/forget":        s.controlForget,
		"GET /_simulator/endpoints":      s.controlEndpoints,
		"PUT /_simulator/endpoints":      s.controlSetEndpoints,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.control(w, r, handle) })
	}
	mux.HandleFunc("/_simulator/", func(w http.ResponseWriter, r *http.Request) {
		s.control(w, r, func(*http.Request) (any, error) { return nil, ErrNotFound })
	})
}

func (s *Server) control(w http.ResponseWriter, r *http.Request, handle func(*http.Request) (any, error)) {
	want := "Bearer " + s.cfg.ControlToken
	if s.cfg.ControlToken != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) != 1 {
		write(w, reply{status: http.StatusUnauthorized, body: encode(object{"error": "the control token is missing or wrong"})})
		return
	}
	out, err := handle(r)
	if err != nil {
		status := http.StatusInternalServerError
		switch {
		case errors.Is(err, ErrNotFound):
			status = http.StatusNotFound
		case errors.Is(err, ErrInvalid):
			status = http.StatusBadRequest
		case errors.Is(err, ErrFull):
			status = http.StatusTooManyRequests
		}
		write(w, reply{status: status, body: encode(object{"error": err.Error()})})
		return
	}
	write(w, reply{status: http.StatusOK, body: encode(out)})
}

// read decodes an instruction; unknown members are refused, so that a typing
// error is not a fault that never strikes.
func read(r *http.Request, into any) error {
	b, err := io.ReadAll(io.LimitReader(r.Body, bodyBytesMax+1))
	if err != nil || len(b) > bodyBytesMax {
		return fmt.Errorf("a body that could not be read or is too large: %w", ErrInvalid)
	}
	if len(b) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, into, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

func (s *Server) controlBooks(r *http.Request) (any, error) {
	if r.URL.Query().Get("movements") == "false" {
		return s.Sums(), nil
	}
	return s.Books(), nil
}

func (s *Server) controlInject(r *http.Request) (any, error) {
	var f Fault
	if err := read(r, &f); err != nil {
		return nil, err
	}
	id, err := s.Inject(f)
	return object{"id": id}, err
}

func (s *Server) controlClear(r *http.Request) (any, error) {
	return object{}, s.ClearFaults(r.PathValue("id"))
}

func (s *Server) controlTrigger(r *http.Request) (any, error) {
	var t Trigger
	if err := read(r, &t); err != nil {
		return nil, err
	}
	return s.Trigger(t)
}

func (s *Server) controlForget(r *http.Request) (any, error) {
	var in struct {
		Key string `json:"key"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	return object{"forgotten": s.ForgetKeys(in.Key)}, nil
}

func (s *Server) controlEndpoints(*http.Request) (any, error) {
	return object{"data": s.EndpointURLs()}, nil
}

func (s *Server) controlSetEndpoints(r *http.Request) (any, error) {
	var endpoints []Endpoint
	if err := read(r, &endpoints); err != nil {
		return nil, err
	}
	return object{}, s.SetEndpoints(endpoints...)
}
