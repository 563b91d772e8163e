package stripe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
)

// Bounds of what one payload may hold.
const (
	objectsMax   = 256 // objects that are read, nested ones included
	nameBytesMax = 255 // bytes of an id or of a reference
)

// object is what is read of a payment intent, a charge, a refund, a dispute, a
// checkout session, an invoice or an invoice payment. Members stay raw until
// the kind of the object is known: what is odd in a member that means nothing
// for the kind must not matter.
type object struct {
	path   string // from the payload's root, for errors
	root   bool   // the event's own object
	within string // the line of the object around it

	ID              jsontext.Value `json:"id"`
	Object          jsontext.Value `json:"object"`
	Status          jsontext.Value `json:"status"`
	Currency        jsontext.Value `json:"currency"`
	Metadata        jsontext.Value `json:"metadata"`
	Amount          jsontext.Value `json:"amount"`
	AmountReceived  jsontext.Value `json:"amount_received"`
	AmountCaptured  jsontext.Value `json:"amount_captured"`
	AmountRefunded  jsontext.Value `json:"amount_refunded"`
	AmountTotal     jsontext.Value `json:"amount_total"`
	Captured        jsontext.Value `json:"captured"`
	PaymentStatus   jsontext.Value `json:"payment_status"`
	ClientReference jsontext.Value `json:"client_reference_id"`
	PaymentIntent   jsontext.Value `json:"payment_intent"`
	Charge          jsontext.Value `json:"charge"`
	LatestCharge    jsontext.Value `json:"latest_charge"`
	LastError       jsontext.Value `json:"last_payment_error"`
	Invoice         jsontext.Value `json:"invoice"`
	Dispute         jsontext.Value `json:"dispute"`
	Charges         jsontext.Value `json:"charges"`
	Refunds         jsontext.Value `json:"refunds"`
	Payments        jsontext.Value `json:"payments"`
	Payment         jsontext.Value `json:"payment"`
}

// reader collects what one payload yields. The first thing that cannot be
// understood stays in err; reading goes on, so that names are complete.
type reader struct {
	acc   *provider.Account
	typ   string
	quiet bool // the type means nothing to us: names only
	err   error

	queue []*object
	line  string // of the event's own object
	ours  bool
	out   payment.Evidence
}

func (r *reader) fail(path string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", path, err)
	}
}

// run reads the event's object and every object that is nested in it.
func (r *reader) run(d data) {
	if d.Object.Kind() != '{' {
		r.fail("data.object", errors.New("is not an object"))
		return
	}
	root := r.nest("data.object", d.Object, "")
	if root == nil {
		return
	}
	root.root = true
	for i := 0; i < len(r.queue); i++ {
		o := r.queue[i]
		read := parts[r.kind(o)]
		switch {
		case read != nil && o.root:
			r.reference(o)
			r.line = read(r, o)
		case read != nil:
			read(r, o)
		case o.root:
			r.fail("data.object", errors.New("is of a kind that does not belong to the type"))
		}
	}
	if r.typ == typeCapturable {
		r.previous(root, d.Previous)
	}
}

// fill puts what was read into the event.
func (r *reader) fill(ev *provider.Event) {
	ev.Evidence = r.out
	ev.Ours = r.ours
	if r.line != "" {
		ev.Lane = r.line
	}
}

// nest queues an object to be read.
func (r *reader) nest(path string, v jsontext.Value, within string) *object {
	if len(r.queue) == objectsMax {
		r.fail(path, fmt.Errorf("more than %d objects", objectsMax))
		return nil
	}
	o := &object{path: path, within: within}
	if err := json.Unmarshal(v, o, checked); err != nil {
		r.fail(path, flaw(err))
		return nil
	}
	r.queue = append(r.queue, o)
	return o
}

// kind is the object's own word, or where it has none what the type says.
func (r *reader) kind(o *object) string {
	if kind := r.text(o, "object", o.Object); kind != "" || !o.root {
		return kind
	}
	for _, p := range typePrefixes {
		if strings.HasPrefix(r.typ, p.prefix) {
			return p.kind
		}
	}
	return ""
}

// typePrefixes tell the kind of the object by the type, the first that fits.
var typePrefixes = []struct{ prefix, kind string }{
	{"payment_intent.", kindIntent},
	{"charge.dispute.", kindDispute},
	{"charge.refund.", kindRefund},
	{"charge.", kindCharge},
	{"refund.", kindRefund},
	{"checkout.session.", kindSession},
	{"invoice_payment.", kindInvoicePayment},
	{"invoice.", kindInvoice},
}

// text reads a string; one that is absent or null is empty.
func (r *reader) text(o *object, name string, v jsontext.Value) string {
	if absent(v) {
		return ""
	}
	s, err := unquote(v)
	if err != nil {
		r.fail(o.path+"."+name, err)
	}
	return s
}

// own reads the id of the object and names it.
func (r *reader) own(o *object) string {
	id := r.text(o, "id", o.ID)
	if !isID(id) {
		r.fail(o.path+".id", errors.New("is missing or is not an id"))
		return ""
	}
	r.name(id)
	return id
}

// ref reads a reference to another object, which is its id or the object itself,
// and names it. An object is queued, to be read as part of the line within.
func (r *reader) ref(o *object, name string, v jsontext.Value, within string) string {
	if absent(v) {
		return ""
	}
	path := o.path + "." + name
	var id string
	if v.Kind() == '{' {
		n := r.nest(path, v, within)
		if n == nil {
			return ""
		}
		id = r.text(n, "id", n.ID)
	} else {
		id = r.text(o, name, v)
	}
	if !isID(id) {
		r.fail(path, errors.New("is not an id"))
		return ""
	}
	r.name(id)
	return id
}

// list reads the elements of a list object.
func (r *reader) list(o *object, name string, v jsontext.Value) []jsontext.Value {
	if absent(v) {
		return nil
	}
	var l struct {
		Data []jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(v, &l, checked); err != nil {
		r.fail(o.path+"."+name, flaw(err))
	}
	return l.Data
}

// refs reads a list of objects and returns the first one's id.
func (r *reader) refs(o *object, name string, v jsontext.Value, within string) (first string) {
	for i, element := range r.list(o, name, v) {
		id := r.ref(o, name+".data["+strconv.Itoa(i)+"]", element, within)
		if i == 0 {
			first = id
		}
	}
	return first
}

// money reads an amount of the object in the object's currency.
func (r *reader) money(o *object, name string, v jsontext.Value) (m payment.Money, stated bool) {
	if absent(v) {
		return m, false
	}
	value, err := whole(v)
	if err != nil {
		r.fail(o.path+"."+name, err)
		return m, false
	}
	code, err := currencyCode(r.text(o, "currency", o.Currency))
	if err != nil {
		r.fail(o.path+".currency", err)
		return m, false
	}
	if m, err = payment.FromProvider(value, code, amounts); err != nil {
		r.fail(o.path+"."+name, err)
		return m, false
	}
	return m, true
}

// needed is money that the object cannot go without.
func (r *reader) needed(o *object, name string, v jsontext.Value) payment.Money {
	m, stated := r.money(o, name, v)
	if !stated {
		r.fail(o.path+"."+name, errors.New("is missing"))
	}
	return m
}

func (r *reader) name(id string) {
	if !slices.Contains(r.out.Names, id) {
		r.out.Names = append(r.out.Names, id)
	}
}

// add notes a fact once.
func (r *reader) add(f payment.Fact) {
	if r.quiet {
		return
	}
	same := func(old payment.Fact) bool {
		return old.Kind == f.Kind && old.Object == f.Object && old.Key() == f.Key() && old.Variant() == f.Variant()
	}
	if !slices.ContainsFunc(r.out.Facts, same) {
		r.out.Facts = append(r.out.Facts, f)
	}
}

// link notes that two names mean one line.
func (r *reader) link(a, b string) {
	if a != "" && b != "" && a != b {
		r.add(payment.Link(a, b))
	}
}

// reference reads what the event's object says about whose payment it is.
func (r *reader) reference(o *object) {
	order := r.acc.OrderMetadata
	if order == "" {
		order = provider.DefaultOrderMetadata
	}
	values := metadata(o)
	r.out.Payment = referenceOf(textOf(values[provider.MetadataPayment]))
	r.out.Operation = referenceOf(textOf(values[provider.MetadataOperation]))
	r.out.Order = referenceOf(textOf(values[order]))
	r.ours = r.out.Payment != "" || r.out.Operation != "" || r.out.Order != ""
}

// metadata reads the object's metadata; what is none says nothing.
func metadata(o *object) map[string]jsontext.Value {
	var values map[string]jsontext.Value
	if o.Metadata.Kind() != '{' || json.Unmarshal(o.Metadata, &values, checked) != nil {
		return nil
	}
	return values
}

// referenceOf returns a reference that people or programs chose, or nothing
// where it cannot be one: references are short text without control characters.
func referenceOf(s string) string {
	if len(s) > nameBytesMax || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return ""
	}
	return s
}

// isID says whether a text can be an id of Stripe's: printable ASCII.
func isID(s string) bool {
	if s == "" || len(s) > nameBytesMax {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func absent(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }

func unquote(v jsontext.Value) (string, error) {
	if v.Kind() != '"' {
		return "", errors.New("is not a string")
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return "", errors.New("is not a string")
	}
	return string(b), nil
}

// textOf is a string's text, and empty for anything else.
func textOf(v jsontext.Value) string {
	s, err := unquote(v)
	if err != nil {
		return ""
	}
	return s
}
