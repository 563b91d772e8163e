package stripe_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

// event wraps an object, given by its members, in an event.
func event(typ, object string) string {
	return `{"id":"evt_1","object":"event","type":"` + typ + `","livemode":true,"created":1,"data":{"object":{` + object + `}}}`
}

// short writes a fact in one line: kind, object<parent, stage, amount.
func short(f payment.Fact) string {
	s := string(f.Kind)
	if f.Form == payment.FormTotal {
		s += " total"
	}
	s += " " + f.Object
	if f.Parent != "" {
		s += "<" + f.Parent
	}
	if f.Form != payment.FormTotal || f.Kind == payment.KindAuthorization {
		s += strings.TrimSuffix(" "+string(f.Stage), " ")
	}
	if f.Kind == payment.KindDispute {
		s += fmt.Sprintf("/%d", f.Round)
	}
	if f.Amount.Currency != "" {
		s += fmt.Sprintf(" %d%s", f.Amount.Value, f.Amount.Currency)
	}
	if f.Loud {
		s += " loud"
	}
	if f.Operation != "" {
		s += " by " + f.Operation
	}
	return s
}

const (
	intent = `"id":"pi","object":"payment_intent","currency":"eur","amount":100,`
	charge = `"id":"ch","object":"charge","currency":"eur","amount":100,"payment_intent":"pi",`
	refund = `"id":"re","object":"refund","currency":"eur","amount":30,"charge":"ch","payment_intent":"pi",`
	claim  = `"id":"dp","object":"dispute","currency":"eur","amount":100,"charge":"ch","payment_intent":"pi",`
	cart   = `"id":"cs","object":"checkout.session","currency":"eur","amount_total":100,"payment_intent":"pi",`

	authorized = "authorization total pi authorized 100EUR"
	captured   = "capture total pi<pi 100EUR"
	linked     = "link ch<pi"
)

// R2.3, R2.4: each object is read as a snapshot, whatever the type of its event.
func TestFacts(t *testing.T) {
	for _, c := range []struct {
		name, typ, object string
		want              string // facts, separated by commas
	}{
		{"created", "payment_intent.created", intent + `"status":"requires_payment_method"`, "attempt pi<pi pending"},
		{"to be confirmed", "payment_intent.created", intent + `"status":"requires_confirmation"`, "attempt pi<pi pending"},
		{"created and paid at once", "payment_intent.created", intent + `"status":"succeeded","amount_received":100`,
			authorized + "," + captured + ",authorization pi completed"},
		{"requires action with a charge", "payment_intent.requires_action", intent + `"status":"requires_action","latest_charge":"ch"`,
			linked + ",attempt ch<pi pending"},
		{"requires action after a failed charge", "payment_intent.requires_action",
			intent + `"status":"requires_action","latest_charge":"ch","last_payment_error":{"charge":"ch"}`,
			linked + ",attempt ch<pi failed,attempt pi<pi pending"},
		{"status from the type", "payment_intent.processing", intent + `"status":null`, "attempt pi<pi pending"},
		{"failed, charge in the error", "payment_intent.payment_failed",
			intent + `"status":"requires_payment_method","last_payment_error":{"charge":"ch"}`, linked + ",attempt ch<pi failed"},
		{"failed, latest charge", "payment_intent.payment_failed", intent + `"status":"requires_payment_method","latest_charge":"ch"`,
			linked + ",attempt ch<pi failed"},
		{"failed without charge", "payment_intent.payment_failed", intent + `"status":"requires_payment_method","last_payment_error":{"code":"x"}`,
			"attempt pi<pi failed"},
		{"seen later than its failure", "payment_intent.created", intent + `"status":"requires_payment_method","last_payment_error":{}`,
			"attempt pi<pi failed"},
		{"authorized, part captured", "payment_intent.amount_capturable_updated", intent + `"status":"requires_capture","amount_received":60`,
			authorized + ",capture total pi<pi 60EUR"},
		{"captured in part for good", "payment_intent.succeeded", intent + `"status":"succeeded","amount_received":60`,
			authorized + ",capture total pi<pi 60EUR,authorization pi completed"},
		{"canceled", "payment_intent.canceled", intent + `"status":"canceled","amount_received":0`, "authorization pi voided loud"},
		{"latest charge as an object", "payment_intent.succeeded",
			intent + `"status":"succeeded","amount_received":100,"latest_charge":{` + charge + `"status":"succeeded","amount_captured":100,"amount_refunded":30}`,
			linked + "," + authorized + "," + captured + ",authorization pi completed,refund total pi<pi 30EUR"},

		{"charge authorized", "charge.succeeded", charge + `"status":"succeeded","captured":false,"amount_captured":0`, linked + "," + authorized},
		{"charge captured", "charge.captured", charge + `"status":"succeeded","amount_captured":100`, linked + "," + authorized + "," + captured},
		{"charge of 2014", "charge.succeeded", `"id":"ch","object":"charge","currency":"eur","amount":100,"captured":true,"status":"paid"`,
			"authorization total ch authorized 100EUR,capture total ch<ch 100EUR"},
		{"uncaptured, figure missing", "charge.succeeded", charge + `"status":"succeeded","captured":false`, linked + "," + authorized},
		{"neither word nor figure", "charge.refunded", charge + `"amount_refunded":30`, linked + "," + authorized + ",refund total pi<pi 30EUR"},
		{"charge pending", "charge.pending", charge + `"status":"pending"`, linked + ",attempt ch<pi pending"},
		{"charge failed", "charge.failed", charge + `"status":"failed"`, linked + ",attempt ch<pi failed"},
		{"rest released", "charge.captured", charge + `"status":"succeeded","amount_captured":60,"amount_refunded":40`,
			linked + "," + authorized + ",capture total pi<pi 60EUR"},
		{"rest released, then refunded", "charge.refunded", charge + `"status":"succeeded","amount_captured":60,"amount_refunded":70`,
			linked + "," + authorized + ",capture total pi<pi 60EUR,refund total pi<pi 30EUR"},
		{"refunded less than the rest", "charge.refunded", charge + `"status":"succeeded","amount_captured":60,"amount_refunded":30`,
			linked + "," + authorized + ",capture total pi<pi 60EUR,refund total pi<pi 30EUR"},
		{"released by a cancel", "charge.refunded", charge + `"status":"succeeded","captured":false,"amount_captured":0,"amount_refunded":100`,
			linked + "," + authorized},
		{"expired", "charge.expired", charge + `"status":"succeeded","amount_captured":0,"amount_refunded":100`,
			linked + "," + authorized + ",authorization pi expired loud"},
		{"intent as an object", "charge.failed", `"id":"ch","object":"charge","payment_intent":{` + intent + `"status":"processing"},"status":"failed"`,
			linked + ",attempt ch<pi failed,attempt pi<pi pending"},

		{"refund pending", "refund.created", refund + `"status":"pending"`, linked + ",refund re<pi pending 30EUR"},
		{"refund requires action", "refund.updated", refund + `"status":"requires_action"`, linked + ",refund re<pi pending 30EUR"},
		{"refund succeeded by us", "refund.updated", refund + `"status":"succeeded","metadata":{"unavez_operation":"op_1"}`,
			linked + ",refund re<pi succeeded 30EUR by op_1"},
		{"refund canceled", "refund.updated", refund + `"status":"canceled"`, linked + ",refund re<pi canceled 30EUR"},
		{"refund failed", "refund.failed", refund + `"status":"failed"`, linked + ",refund re<pi failed 30EUR"},
		{"refund of a charge", "charge.refund.updated", `"id":"re","object":"refund","currency":"eur","amount":30,"charge":"ch","status":"succeeded"`,
			"refund re<ch succeeded 30EUR"},
		{"refund of nothing we know", "refund.created", `"id":"re","object":"refund","currency":"eur","amount":30,"status":"succeeded"`,
			"refund re succeeded 30EUR"},
		{"refund of a new status", "refund.updated", refund + `"status":"pondering"`, linked},

		{"inquiry", "charge.dispute.created", claim + `"status":"warning_needs_response"`, linked + ",dispute dp<pi open/0 100EUR"},
		{"inquiry answered", "charge.dispute.updated", claim + `"status":"warning_under_review"`, linked + ",dispute dp<pi open/0 100EUR"},
		{"inquiry closed", "charge.dispute.closed", claim + `"status":"warning_closed"`, linked + ",dispute dp<pi won/0 100EUR"},
		{"dispute", "charge.dispute.created", claim + `"status":"needs_response"`, linked + ",dispute dp<pi open/1 100EUR"},
		{"dispute answered", "charge.dispute.updated", claim + `"status":"under_review"`, linked + ",dispute dp<pi open/1 100EUR"},
		{"won", "charge.dispute.closed", claim + `"status":"won"`, linked + ",dispute dp<pi won/1 100EUR"},
		{"prevented", "charge.dispute.closed", claim + `"status":"prevented"`, linked + ",dispute dp<pi won/1 100EUR"},
		{"lost", "charge.dispute.closed", claim + `"status":"lost"`, linked + ",dispute dp<pi lost/1 100EUR"},
		{"withdrawn", "charge.dispute.funds_withdrawn", claim + `"status":"needs_response"`, linked + ",dispute dp<pi open/1 100EUR"},
		{"withdrawn at last", "charge.dispute.funds_withdrawn", claim + `"status":"lost"`,
			linked + ",dispute dp<pi lost/1 100EUR,dispute dp<pi open/1 100EUR"},
		{"back", "charge.dispute.funds_reinstated", claim + `"status":"won"`, linked + ",dispute dp<pi won/1 100EUR"},
		{"a new word on a dispute", "charge.dispute.escalated", claim + `"status":"lost"`, linked + ",dispute dp<pi lost/1 100EUR"},
		{"dispute without amount", "charge.dispute.created", `"id":"dp","object":"dispute","charge":"ch","status":"lost"`, "dispute dp<ch lost/1"},

		{"session paid", "checkout.session.completed", cart + `"payment_status":"paid"`, "link cs<pi," + authorized + "," + captured},
		{"session paid later", "checkout.session.async_payment_succeeded", cart + `"payment_status":"paid"`, "link cs<pi," + authorized + "," + captured},
		{"session unpaid", "checkout.session.completed", cart + `"payment_status":"unpaid"`, "link cs<pi,attempt pi<pi pending"},
		{"session failed", "checkout.session.async_payment_failed", cart + `"payment_status":"unpaid"`, "link cs<pi,attempt pi<pi failed"},
		{"session expired", "checkout.session.expired", cart + `"payment_status":"unpaid","status":"expired"`, "link cs<pi,authorization pi expired loud"},
		{"nothing to pay", "checkout.session.completed", cart + `"payment_status":"no_payment_required"`, "link cs<pi"},
		{"session of a subscription", "checkout.session.completed", `"id":"cs","object":"checkout.session","currency":"eur","amount_total":100,"payment_status":"paid","invoice":"in"`, ""},

		{"invoice", "invoice.paid", `"id":"in","object":"invoice","amount_paid":100,"currency":"eur","payment_intent":"pi","charge":"ch"`, linked},
		{"upcoming invoice", "invoice.upcoming", `"object":"invoice","amount_due":100`, ""},
		{"invoice of a charge", "invoice.paid", `"id":"in","object":"invoice","payments":{"data":[{"id":"inpay","payment":{"type":"charge","charge":"ch"}}]}`, ""},
		{"unknown type", "payment_intent.reviewed", intent + `"status":"succeeded","amount_received":100`, ""},
		{"unknown type, odd amount", "charge.reviewed", charge + `"status":"succeeded","amount_captured":"x"`, ""},
	} {
		ev, err := stripe.Adapter{}.Parse(testAccount(), []byte(event(c.typ, c.object)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, f := range ev.Facts {
			got = append(got, short(f))
		}
		want := strings.FieldsFunc(c.want, func(r rune) bool { return r == ',' })
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, want)
		}
		c.object = strings.Replace(c.object, `"object":"`, `"was":"`, 1)
		if again, err := (stripe.Adapter{}).Parse(testAccount(), []byte(event(c.typ, c.object))); err != nil || len(again.Facts) != len(ev.Facts) {
			t.Errorf("%s, the object does not say what it is: %v, %v", c.name, again.Facts, err)
		}
	}
}

// The former amount of an authorization that has grown counts only if it was authorized.
func TestFormerAmount(t *testing.T) {
	for previous, want := range map[string]int{
		`null`: 1, `{}`: 1, `{"amount":80}`: 2, `{"amount":80,"amount_capturable":80}`: 2,
		`{"amount":80,"amount_capturable":0}`: 1, `{"amount":80,"status":"requires_confirmation"}`: 1, `{"amount":100}`: 1,
	} {
		payload := strings.Replace(event("payment_intent.amount_capturable_updated", intent+`"status":"requires_capture"`),
			`"data":{`, `"data":{"previous_attributes":`+previous+`,`, 1)
		ev, err := stripe.Adapter{}.Parse(testAccount(), []byte(payload))
		if err != nil || len(ev.Facts) != want {
			t.Errorf("%s: %v, %v", previous, ev.Facts, err)
		}
	}
	for _, previous := range []string{`[]`, `{"amount":8.5}`} {
		payload := strings.Replace(event("payment_intent.amount_capturable_updated", intent+`"status":"requires_capture"`),
			`"data":{`, `"data":{"previous_attributes":`+previous+`,`, 1)
		if _, err := (stripe.Adapter{}).Parse(testAccount(), []byte(payload)); !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("%s: %v", previous, err)
		}
	}
}

// Where an account captures by hand, a paid session proves no capture.
func TestManualCapture(t *testing.T) {
	acc := testAccount()
	acc.Capture = "manual"
	ev, err := stripe.Adapter{}.Parse(acc, []byte(event("checkout.session.completed", cart+`"payment_status":"paid"`)))
	if err != nil || len(ev.Facts) != 2 || short(ev.Facts[1]) != "attempt pi<pi pending" || ev.Root {
		t.Errorf("%v, %v", ev, err)
	}
	if form := (stripe.Adapter{}).CaptureSpeaks(acc); form != payment.FormTotal {
		t.Errorf("captures speak in form %q", form)
	}
}
