package stripe

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
)

// Adapter is the adapter to Stripe. Its zero value is ready and is safe for use
// by several goroutines.
type Adapter struct{}

var _ provider.Adapter = Adapter{}

// Acknowledgement is 200 without a body: Stripe reads the status alone.
func (Adapter) Acknowledgement() provider.Acknowledgement {
	return provider.Acknowledgement{Status: 200}
}

// CaptureSpeaks is FormTotal: Stripe reports what has been captured so far.
func (Adapter) CaptureSpeaks(*provider.Account) payment.Form { return payment.FormTotal }

// envelope is what stands around the object of an event, in every API version.
type envelope struct {
	ID       string         `json:"id"`
	Object   string         `json:"object"`
	Type     string         `json:"type"`
	Livemode *bool          `json:"livemode"`
	Account  string         `json:"account"`
	Context  string         `json:"context"`
	Created  jsontext.Value `json:"created"`
	Data     data           `json:"data"`
	Related  jsontext.Value `json:"related_object"`
}

// data is the envelope's data. What is no object is kept as odd, for it matters
// only if the type means something to us.
type data struct {
	Object   jsontext.Value
	Previous jsontext.Value
	odd      bool
}

// UnmarshalJSONFrom reads the two members and checks the form of all others.
func (d *data) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		d.odd = dec.PeekKind() != 'n'
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		var into *jsontext.Value
		switch name.String() {
		case "object":
			into = &d.Object
		case "previous_attributes":
			into = &d.Previous
		}
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if into != nil {
			*into = v.Clone()
		}
	}
	_, err := dec.ReadToken()
	return err
}

// checked are the options for a second reading of what has been read as part of
// the payload: its names and its UTF-8 are known to be right.
var checked = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

const (
	thinPrefix   = "v2." // objects of thin events: v2.core.event
	createdMax   = 253402300799
	typeBytesMax = 128
)

// errThin: to take such an event for irrelevant would lose a payment without a
// word whenever an endpoint is set to thin payloads.
var errThin = errors.New("thin event: it names a payment's object and does not say what happened; let the endpoint send snapshot payloads")

// Parse reads one event. See provider.Adapter for what it returns of a payload
// that cannot be understood.
func (Adapter) Parse(acc *provider.Account, payload []byte) (provider.Event, error) {
	var env envelope
	if err := json.Unmarshal(payload, &env); err != nil {
		return partial(acc, payload), malformed(flaw(err))
	}
	ev, err := env.event(acc)
	if err != nil {
		return partial(acc, payload), malformed(err)
	}
	if strings.HasPrefix(env.Object, thinPrefix) {
		ev.Thin = true
		if ev.Names = relatedNames(env.Related); len(ev.Names) > 0 {
			return ev, malformed(errThin)
		}
		return ev, nil
	}
	if err := env.read(acc, &ev); err != nil {
		return ev, malformed(err)
	}
	return ev, nil
}

// event reads everything but the object.
func (env *envelope) event(acc *provider.Account) (provider.Event, error) {
	thin := strings.HasPrefix(env.Object, thinPrefix)
	switch {
	case !isID(env.ID):
		return provider.Event{}, errors.New("id is missing or is not an id")
	case env.Object != "" && env.Object != "event" && !thin:
		return provider.Event{}, errors.New("object is not an event")
	case env.Type == "" || len(env.Type) > typeBytesMax || !isID(env.Type):
		return provider.Event{}, errors.New("type is missing or is not a type")
	case env.Livemode == nil && !thin:
		return provider.Event{}, errors.New("livemode is missing")
	case env.Account != "" && !isID(env.Account):
		return provider.Event{}, errors.New("account is not an id")
	}
	account, mode := env.Account, acc.Mode
	if thin && isID(env.Context) {
		account = env.Context
	}
	if env.Livemode != nil {
		mode = modeOf(*env.Livemode)
	}
	at, err := occurred(env.Created, thin)
	if err != nil {
		return provider.Event{}, err
	}
	ev := identified(acc, env.ID, account)
	ev.Type, ev.Mode, ev.OccurredAt = env.Type, mode, at
	return ev, nil
}

// identified returns an event with its identities.
func identified(acc *provider.Account, id, account string) provider.Event {
	ev := provider.Event{Identity: id, ProviderEventID: id, Lane: id}
	if account != "" && account != acc.ProviderAccount {
		ev.Connected = account
		ev.Identity = account + ":" + id
		ev.Lane = ev.Identity
	}
	return ev
}

func modeOf(live bool) provider.Mode {
	if live {
		return provider.Live
	}
	return provider.Test
}

// occurred reads the time of the event: seconds since 1970, in thin events RFC 3339.
func occurred(v jsontext.Value, thin bool) (time.Time, error) {
	if absent(v) {
		return time.Time{}, nil
	}
	if thin && v.Kind() == '"' {
		text, err := unquote(v)
		if err != nil {
			return time.Time{}, err
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return time.Time{}, errors.New("created is not an instant of RFC 3339")
		}
		return at.UTC(), nil
	}
	seconds, err := whole(v)
	if err != nil || seconds > createdMax {
		return time.Time{}, errors.New("created is not a number of seconds")
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// read reads the object of the event into ev. An event of a type that means
// nothing to us is read for the names it mentions, and nothing in it is wrong.
func (env *envelope) read(acc *provider.Account, ev *provider.Event) error {
	speaking := speaks(env.Type)
	if env.Data.odd && speaking {
		return errors.New("data is not an object")
	}
	r := reader{acc: acc, typ: env.Type, quiet: !speaking}
	r.run(env.Data)
	if r.err != nil && speaking {
		return r.err
	}
	r.fill(ev)
	return nil
}

// relatedNames are the names that a thin event mentions.
func relatedNames(v jsontext.Value) []string {
	var related struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	if v.Kind() != '{' || json.Unmarshal(v, &related, checked) != nil || !isID(related.ID) || !isPart(related.Type) {
		return nil
	}
	return []string{related.ID}
}

func malformed(err error) error { return fmt.Errorf("%w: %w", provider.ErrMalformed, err) }

// flaw says what is wrong with JSON without repeating any of it.
func flaw(err error) error {
	var form *jsontext.SyntacticError
	var kind *json.SemanticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return errors.New("a member's name stands twice in one object")
	case errors.As(err, &form):
		return fmt.Errorf("not JSON in UTF-8 at byte %d", form.ByteOffset)
	case errors.As(err, &kind):
		return fmt.Errorf("a member before byte %d is of the wrong kind", kind.ByteOffset)
	default:
		return errors.New("not JSON")
	}
}

// partialMembersMax bounds how many members of a damaged envelope are looked at.
const partialMembersMax = 64

// partial reads as much identity as a damaged payload still shows. A member that
// stands there twice with different values says nothing.
func partial(acc *provider.Account, payload []byte) provider.Event {
	seen := scan(payload)
	ev := provider.Event{Mode: acc.Mode}
	if typ := textOf(seen["type"]); len(typ) <= typeBytesMax && isID(typ) {
		ev.Type = typ
	}
	switch string(seen["livemode"]) {
	case "true":
		ev.Mode = provider.Live
	case "false":
		ev.Mode = provider.Test
	}
	id, account := textOf(seen["id"]), textOf(seen["account"])
	if !isID(id) {
		return ev
	}
	ev.ProviderEventID = id
	if !absent(seen["account"]) && !isID(account) {
		return ev // whose event it is cannot be read
	}
	found := identified(acc, id, account)
	found.Type, found.Mode = ev.Type, ev.Mode
	return found
}

// ambiguous stands for a member with two values.
var ambiguous = jsontext.Value(`{}`)

// scan collects the members of the envelope that identify the event, up to
// where the payload cannot be read any further.
func scan(payload []byte) map[string]jsontext.Value {
	seen := map[string]jsontext.Value{}
	dec := jsontext.NewDecoder(bytes.NewBuffer(payload), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return seen
	}
	for range partialMembersMax {
		t, err := dec.ReadToken()
		if err != nil || t.Kind() != '"' {
			return seen
		}
		name := t.String()
		v, err := dec.ReadValue()
		if err != nil {
			return seen
		}
		switch name {
		case "id", "type", "livemode", "account":
			if old, twice := seen[name]; twice && !bytes.Equal(old, v) {
				v = ambiguous
			}
			seen[name] = v.Clone()
		}
	}
	return seen
}
