package simulator

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// event is one notification. Its payload is rendered once: every delivery and
// every resend carries the same bytes.
type event struct {
	base
	seq     int64
	typ     string
	payment string // the intent it is about, for measuring disorder
	payload []byte
	open    int    // deliveries that are still to be made
	acked   uint64 // endpoints that answered 2xx; guarded by queue.mu
}

// show is the event as the API lists it. Only the payload is kept, to save
// memory; its members stay as they were rendered.
func (ev *event) show() object {
	raw := map[string]jsontext.Value{}
	if err := json.Unmarshal(ev.payload, &raw); err != nil {
		panic("simulator: impossible: an own event that cannot be read: " + err.Error())
	}
	o := object{}
	for name, value := range raw {
		o[name] = value
	}
	return o
}

// emit records an event for a change that the caller, holding s.mu, has just
// made, and hands it to delivery. Previous may be nil.
func (s *Server) emit(c *call, payment, typ string, data any, previous object) {
	ev := s.newEvent(c, payment, typ, encode(data), previous)
	s.send(ev)
	if s.faults.webhook(FaultSecondEvent, typ) != nil {
		again := s.newEvent(c, payment, typ, encode(data), previous)
		s.queue.countSecond()
		s.send(again)
	}
}

func (s *Server) newEvent(c *call, payment, typ string, data jsontext.Value, previous object) *event {
	s.seq++
	ev := &event{
		base: base{id: mint(s.ids, "evt_", idChars), account: c.account, created: c.now},
		seq:  s.seq, typ: typ, payment: payment,
	}
	inner := object{"object": data}
	if previous != nil {
		inner["previous_attributes"] = previous
	}
	o := s.head(ev.base, "event")
	add(o, object{
		"api_version": s.cfg.APIVersion, "data": inner, "pending_webhooks": 1, "type": typ,
		"request": object{"id": text(c.id), "idempotency_key": text(c.key)},
	})
	if ev.account != "" {
		o["account"] = ev.account
	}
	ev.payload = encode(o)
	s.trimEvents()
	s.events.add(ev)
	c.events = append(c.events, ev.id)
	return ev
}

// send queues the event's deliveries unless a fault loses them.
func (s *Server) send(ev *event) {
	plan := s.faults.plan(ev.typ)
	ev.open = s.queue.add(ev, plan)
}

// settled is called when a delivery is over, whatever its end.
func (s *Server) settled(ev *event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev.open--
}

// eventLog keeps the newest events; the oldest settled ones may be dropped.
type eventLog struct {
	rows []*event
	byID map[string]*event
}

func (l *eventLog) add(ev *event) {
	if l.byID == nil {
		l.byID = map[string]*event{}
	}
	l.rows = append(l.rows, ev)
	l.byID[ev.id] = ev
}

// find is where the event with the sequence number stands.
func (l *eventLog) find(seq int64) (int, bool) {
	return slices.BinarySearchFunc(l.rows, seq, func(e *event, seq int64) int { return int(e.seq - seq) })
}

// trimEvents makes room for one more by dropping the oldest, if it is settled.
func (s *Server) trimEvents() {
	for len(s.events.rows) >= s.cfg.EventsMax && s.events.rows[0].open == 0 {
		delete(s.events.byID, s.events.rows[0].id)
		s.events.rows[0] = nil
		s.events.rows = s.events.rows[1:]
	}
}

// room says whether there is space for what one call may add.
func (s *Server) room() bool {
	objects := len(s.intents.rows) + len(s.charges.rows) + len(s.refunds.rows) + len(s.disputes.rows) +
		len(s.sessions.rows) + len(s.invoices.rows) + len(s.ledger.lines)
	full := len(s.events.rows) >= s.cfg.EventsMax && s.events.rows[0].open > 0
	return objects < s.cfg.ObjectsMax && !full
}

func getEvent(c *call) (object, *apiError) {
	ev, ok := c.srv.events.byID[c.path["id"]]
	if !ok || ev.account != c.account {
		return nil, missing("event", c.path["id"])
	}
	return ev.show(), nil
}

// eventsRetention is how far back events can be listed.
const eventsRetention = 30 * 24 * time.Hour

func listEvents(c *call) (object, *apiError) {
	s := c.srv
	created, bad := c.params.span("created")
	if bad != nil {
		return nil, bad
	}
	created.from = max(created.from, c.now.Add(-eventsRetention).Unix())
	types := c.params.list("types")
	if len(types) > eventTypesMax {
		return nil, badParam("types", "", "You may pass at most 20 types")
	}
	if t := c.params.get("type"); t != "" {
		types = append(types, t)
	}
	wantDelivered := c.params.get("delivery_success")
	if _, bad := c.params.boolean("delivery_success", false); bad != nil {
		return nil, bad
	}
	matches := func(ev *event) bool {
		switch {
		case ev.account != c.account, !created.holds(ev.created.Unix()):
			return false
		case len(types) > 0 && !slices.ContainsFunc(types, func(p string) bool { return glob(p, ev.typ) }):
			return false
		}
		return wantDelivered == "" || s.queue.delivered(ev) == (wantDelivered == "true")
	}
	at := func(id string) (int, bool) {
		ev, ok := s.events.byID[id]
		if !ok {
			return 0, false
		}
		return s.events.find(ev.seq)
	}
	return page(c, s.events.rows, at, matches, (*event).show)
}

// secondEvent describes a fact that has an event once more, under a new id.
func (s *Server) secondEvent(c *call, ev *event) {
	s.seq++
	again := &event{base: ev.base, seq: s.seq, typ: ev.typ, payment: ev.payment}
	again.id = mint(s.ids, "evt_", idChars)
	again.payload = encode(add(ev.show(), object{"id": again.id}))
	s.trimEvents()
	s.events.add(again)
	c.events = append(c.events, again.id)
	s.queue.countSecond()
	s.send(again)
}
