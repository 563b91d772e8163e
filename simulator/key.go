package simulator

import (
	"net/http"
	"time"
)

// keyRecord is what an idempotency key keeps: the request it belongs to, and
// the first answer once there is one.
type keyRecord struct {
	request string // endpoint, parameters, version
	running bool
	reply   reply
	origin  string // id of the request that was executed
	at      time.Time
}

// reply is an answer as it is stored and sent.
type reply struct {
	status int
	body   []byte
	origin string // set: replayed from this request
}

func failure(e *apiError) reply { return reply{status: e.status, body: encode(e.body())} }

// name scopes a key by account; the mode is the server's.
func (c *call) keyName() string { return c.account + "\x00" + c.key }

// reserve looks the call's key up. It answers what must be answered without
// executing, or reserves the key for this call. The caller holds s.mu.
func (s *Server) reserve(c *call, request string) (reply, bool) {
	name := c.keyName()
	k, ok := s.keys[name]
	if ok && !k.running && !c.now.Before(k.at.Add(s.cfg.KeyTTL)) {
		delete(s.keys, name) // forgotten: the next use is a new execution
		ok = false
	}
	switch {
	case !ok:
		if s.pruneKeys(c.now); len(s.keys) >= s.cfg.KeysMax {
			return failure(tooMany("rate_limit", "Too many idempotency keys.")), true
		}
		s.keys[name] = &keyRecord{request: request, running: true, origin: c.id, at: c.now}
		return reply{}, false
	case k.request != request:
		return failure(&apiError{
			status: http.StatusBadRequest, typ: typeIdempotency,
			message: "Keys for idempotent requests can only be used with the same parameters they were first used with. " +
				"Try using a key other than '" + c.key + "' if you meant to execute a different request.",
		}), true
	case k.running:
		return failure(keyInUse(c.key)), true
	}
	again := k.reply
	again.origin = k.origin
	return again, true
}

func keyInUse(key string) *apiError {
	return &apiError{
		status: http.StatusConflict, typ: typeIdempotency, code: codeKeyInUse, early: true,
		message: "There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, " +
			"and the other request is still going through): " + key + ".",
	}
}

// keep stores the answer under the key, or frees the key where the execution
// had not begun.
func (s *Server) keep(c *call, rep reply, early bool) {
	k, ok := s.keys[c.keyName()]
	if !ok || k.origin != c.id {
		return // forgotten meanwhile, by instruction
	}
	if early {
		delete(s.keys, c.keyName())
		return
	}
	k.running, k.reply = false, rep
}

// pruneKeys makes room when the keys are full; younger ones than the time to
// live stay.
func (s *Server) pruneKeys(now time.Time) {
	if len(s.keys) < s.cfg.KeysMax {
		return
	}
	for name, k := range s.keys {
		if !k.running && !now.Before(k.at.Add(s.cfg.KeyTTL)) {
			delete(s.keys, name)
		}
	}
}

// ForgetKeys forgets one idempotency key, in every account, or all of them if
// the key is empty, as the provider does after a day. It says how many.
func (s *Server) ForgetKeys(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for name := range s.keys {
		if key == "" || keyOf(name) == key {
			delete(s.keys, name)
			n++
		}
	}
	return n
}

func keyOf(name string) string {
	for i := range len(name) {
		if name[i] == 0 {
			return name[i+1:]
		}
	}
	return name
}
