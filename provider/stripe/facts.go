package stripe

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
)

// The kinds of objects that are parts of a payment.
const (
	kindIntent         = "payment_intent"
	kindCharge         = "charge"
	kindRefund         = "refund"
	kindDispute        = "dispute"
	kindSession        = "checkout.session"
	kindInvoice        = "invoice"
	kindInvoicePayment = "invoice_payment"
)

// The types that say more than their object does.
const (
	typeCapturable     = "payment_intent.amount_capturable_updated"
	typeIntentFailed   = "payment_intent.payment_failed"
	typeChargeExpired  = "charge.expired"
	typeFundsWithdrawn = "charge.dispute.funds_withdrawn"
	typeFundsBack      = "charge.dispute.funds_reinstated"
	typeSessionFailed  = "checkout.session.async_payment_failed"
	typeSessionExpired = "checkout.session.expired"
)

// captureManual is the account setting under which paid may mean authorized.
const captureManual = "manual"

// parts reads each kind of object and returns the line that it is part of.
var parts = map[string]func(*reader, *object) string{
	kindIntent:         (*reader).intent,
	kindCharge:         (*reader).charge,
	kindRefund:         (*reader).refund,
	kindDispute:        (*reader).dispute,
	kindSession:        (*reader).session,
	kindInvoice:        (*reader).invoice,
	kindInvoicePayment: (*reader).invoicePayment,
}

func isPart(kind string) bool { return parts[kind] != nil }

// impliedStatus is the status that the type proves where an object states none.
var impliedStatus = map[string]string{
	"payment_intent.requires_action": "requires_action",
	"payment_intent.processing":      "processing",
	typeCapturable:                   "requires_capture",
	"payment_intent.succeeded":       "succeeded",
	typeIntentFailed:                 "requires_payment_method",
	"payment_intent.canceled":        "canceled",
	"charge.succeeded":               "succeeded",
	"charge.captured":                "succeeded",
	"charge.refunded":                "succeeded",
	typeChargeExpired:                "succeeded",
	"charge.pending":                 "pending",
	"charge.failed":                  "failed",
	"refund.failed":                  "failed",
}

func (r *reader) status(o *object) string {
	s := r.text(o, "status", o.Status)
	if s == "" && o.root {
		return impliedStatus[r.typ]
	}
	return s
}

// authorized, captured and refunded are cumulative figures of a line.
func (r *reader) authorized(line string, m payment.Money) {
	if m.Value > 0 {
		r.add(payment.Fact{Kind: payment.KindAuthorization, Form: payment.FormTotal, Object: line, Stage: payment.StageAuthorized, Amount: m})
	}
}

func (r *reader) captured(line string, m payment.Money) {
	if m.Value > 0 {
		r.add(payment.Fact{Kind: payment.KindCapture, Form: payment.FormTotal, Object: line, Parent: line, Stage: payment.StageSucceeded, Amount: m})
	}
}

func (r *reader) refunded(line string, m payment.Money) {
	if m.Value > 0 {
		r.add(payment.Fact{Kind: payment.KindRefund, Form: payment.FormTotal, Object: line, Parent: line, Stage: payment.StageSucceeded, Amount: m})
	}
}

// closed notes the end of an authorization. Stripe has no void that merely
// releases a rest, so all but a completion are loud.
func (r *reader) closed(line string, stage payment.Stage) {
	r.add(payment.Fact{
		Kind: payment.KindAuthorization, Form: payment.FormItem, Object: line, Stage: stage,
		Loud: stage != payment.StageCompleted,
	})
}

// attempt notes an attempt to pay; its own id is the charge's, if there is one.
func (r *reader) attempt(charge, line string, stage payment.Stage) {
	if charge == "" {
		charge = line
	}
	r.add(payment.Fact{Kind: payment.KindAttempt, Object: charge, Parent: line, Stage: stage})
}

func (r *reader) intent(o *object) string {
	id := r.own(o)
	first := r.refs(o, "charges", o.Charges, id) // until 2022-11-15, the newest first
	latest := r.ref(o, "latest_charge", o.LatestCharge, id)
	if latest == "" {
		latest = first
	}
	erred, hasError := r.lastError(o, id)
	r.ref(o, "invoice", o.Invoice, "")
	r.link(id, latest)
	r.link(id, erred)
	status := r.status(o)
	r.intentMoney(o, id, status)
	r.intentAttempts(id, latest, erred, status, hasError && status == "requires_payment_method")
	switch status {
	case "succeeded":
		r.closed(id, payment.StageCompleted)
	case "canceled":
		r.closed(id, payment.StageVoided)
	}
	return id
}

func (r *reader) intentMoney(o *object, id, status string) {
	amount, stated := r.money(o, "amount", o.Amount)
	received, _ := r.money(o, "amount_received", o.AmountReceived)
	switch status {
	case "succeeded":
		r.needed(o, "amount_received", o.AmountReceived)
		fallthrough
	case "requires_capture":
		r.authorized(id, r.needed(o, "amount", o.Amount))
	}
	r.captured(id, received)
	if o.root && stated && !r.quiet {
		r.out.Root = amount.Value > 0
	}
}

// intentAttempts notes what the intent shows of attempts. An attempt that has
// no charge yet beside one that failed cannot be told from it; it then stands
// under the intent itself.
func (r *reader) intentAttempts(id, latest, erred, status string, refused bool) {
	refused = refused || r.typ == typeIntentFailed
	switch {
	case erred != "":
		r.attempt(erred, id, payment.StageFailed)
	case refused:
		r.attempt(latest, id, payment.StageFailed)
	}
	switch status {
	case "requires_payment_method":
		if refused {
			return
		}
	case "requires_confirmation", "requires_action", "processing":
	default:
		return
	}
	if latest == erred {
		latest = ""
	}
	r.attempt(latest, id, payment.StagePending)
}

// lastError returns the charge of the intent's last error, and whether there is one.
func (r *reader) lastError(o *object, id string) (charge string, found bool) {
	if absent(o.LastError) {
		return "", false
	}
	var last struct {
		Charge jsontext.Value `json:"charge"`
	}
	if err := json.Unmarshal(o.LastError, &last, checked); err != nil {
		r.fail(o.path+".last_payment_error", flaw(err))
		return "", false
	}
	return r.ref(o, "last_payment_error.charge", last.Charge, id), true
}

// previous reads what an authorization was before it grew. The former amount was
// authorized only if it could be captured.
func (r *reader) previous(o *object, v jsontext.Value) {
	if absent(v) {
		return
	}
	p := &object{path: "data.previous_attributes"}
	var former struct {
		Status     jsontext.Value `json:"status"`
		Amount     jsontext.Value `json:"amount"`
		Capturable jsontext.Value `json:"amount_capturable"`
	}
	if err := json.Unmarshal(v, &former, checked); err != nil {
		r.fail(p.path, flaw(err))
		return
	}
	p.Currency = o.Currency
	amount, stated := r.money(p, "amount", former.Amount)
	capturable, told := r.money(p, "amount_capturable", former.Capturable)
	status := r.text(p, "status", former.Status)
	if stated && (!told || capturable.Value > 0) && (status == "" || status == "requires_capture") && r.line != "" {
		r.authorized(r.line, amount)
	}
}

func (r *reader) charge(o *object) string {
	id := r.own(o)
	line := r.ref(o, "payment_intent", o.PaymentIntent, "")
	if line == "" {
		line = o.within
	}
	if line == "" {
		line = id
	}
	r.link(id, line)
	r.ref(o, "invoice", o.Invoice, "")
	r.ref(o, "dispute", o.Dispute, line)
	r.refs(o, "refunds", o.Refunds, line) // until 2022-11-15
	amount, stated := r.money(o, "amount", o.Amount)
	if o.root && stated && !r.quiet {
		r.out.Root = amount.Value > 0
	}
	switch r.status(o) {
	case "pending":
		r.attempt(id, line, payment.StagePending)
	case "failed":
		r.attempt(id, line, payment.StageFailed)
	case "succeeded", "paid": // paid: until 2015-02-18
		r.chargeMoney(o, line)
	}
	return line
}

func (r *reader) chargeMoney(o *object, line string) {
	amount := r.needed(o, "amount", o.Amount)
	r.authorized(line, amount)
	refunded, _ := r.money(o, "amount_refunded", o.AmountRefunded)
	captured, known := r.capturedOf(o, amount, refunded)
	r.captured(line, captured)
	// What was never captured may be shown as refunded when it is released.
	if rest := amount.Value - captured.Value; known && rest > 0 && refunded.Value >= rest {
		refunded.Value -= rest
	}
	r.refunded(line, refunded)
	if o.root && r.typ == typeChargeExpired {
		r.closed(line, payment.StageExpired)
	}
}

// capturedOf is what has been captured of a charge. Without the figure only the
// word is there, which does not tell a partial capture from a refund.
func (r *reader) capturedOf(o *object, amount, refunded payment.Money) (m payment.Money, known bool) {
	if m, known = r.money(o, "amount_captured", o.AmountCaptured); known {
		return m, true
	}
	switch o.Captured.Kind() {
	case 't':
		if refunded.Value > 0 {
			r.fail(o.path+".amount_captured", errors.New("is missing, and something was refunded or released"))
		}
		return amount, true
	case 'f':
		return payment.Money{Currency: amount.Currency}, true
	}
	return payment.Money{}, false
}

// refundStage says what a refund's status proves.
var refundStage = map[string]payment.Stage{
	"pending":         payment.StagePending,
	"requires_action": payment.StagePending,
	"succeeded":       payment.StageSucceeded,
	"canceled":        payment.StageCanceled,
	"failed":          payment.StageFailed,
}

func (r *reader) refund(o *object) string {
	id := r.own(o)
	line := r.parent(o)
	stage, known := refundStage[r.status(o)]
	if !known {
		return line
	}
	r.add(payment.Fact{
		Kind: payment.KindRefund, Form: payment.FormItem, Object: id, Parent: line, Stage: stage,
		Amount:    r.needed(o, "amount", o.Amount),
		Operation: operation(o),
	})
	return line
}

// operation is the id of ours that the object's metadata carries.
func operation(o *object) string {
	return referenceOf(textOf(metadata(o)[provider.MetadataOperation]))
}

// parent is the line that a refund or a dispute belongs to.
func (r *reader) parent(o *object) string {
	intent := r.ref(o, "payment_intent", o.PaymentIntent, "")
	if intent == "" {
		intent = o.within
	}
	charge := r.ref(o, "charge", o.Charge, intent)
	r.link(charge, intent)
	if intent == "" {
		return charge
	}
	return intent
}

// disputeStage says what a dispute's status proves, and in which round.
var disputeStage = map[string]struct {
	round int
	stage payment.Stage
}{
	"warning_needs_response": {0, payment.StageOpen},
	"warning_under_review":   {0, payment.StageOpen},
	"warning_closed":         {0, payment.StageWon},
	"needs_response":         {1, payment.StageOpen},
	"under_review":           {1, payment.StageOpen},
	"won":                    {1, payment.StageWon},
	"prevented":              {1, payment.StageWon},
	"lost":                   {1, payment.StageLost},
}

func (r *reader) dispute(o *object) string {
	id := r.own(o)
	line := r.parent(o)
	amount, _ := r.money(o, "amount", o.Amount)
	verdict := func(round int, stage payment.Stage) {
		r.add(payment.Fact{
			Kind: payment.KindDispute, Form: payment.FormItem, Object: id, Parent: line,
			Round: round, Stage: stage, Amount: amount,
		})
	}
	if s, known := disputeStage[r.status(o)]; known {
		verdict(s.round, s.stage)
	}
	if o.root {
		switch r.typ {
		case typeFundsWithdrawn:
			verdict(1, payment.StageOpen)
		case typeFundsBack:
			verdict(1, payment.StageWon)
		}
	}
	return line
}

func (r *reader) session(o *object) string {
	id := r.own(o)
	line := r.ref(o, "payment_intent", o.PaymentIntent, "")
	r.ref(o, "invoice", o.Invoice, "")
	r.link(id, line)
	r.clientReference(o)
	if r.status(o) == "expired" || o.root && r.typ == typeSessionExpired {
		if line == "" {
			line = id
		}
		r.closed(line, payment.StageExpired)
		return line
	}
	// Without an intent the money is an invoice's, or there is none.
	if line != "" {
		r.sessionMoney(o, line)
	}
	return line
}

func (r *reader) sessionMoney(o *object, line string) {
	paid := r.text(o, "payment_status", o.PaymentStatus)
	switch {
	case o.root && r.typ == typeSessionFailed:
		r.attempt("", line, payment.StageFailed)
	case paid == "paid" && r.acc.Capture != captureManual:
		total := r.needed(o, "amount_total", o.AmountTotal)
		r.authorized(line, total)
		r.captured(line, total)
		r.out.Root = r.out.Root || o.root && total.Value > 0 && !r.quiet
	case paid == "paid", paid == "unpaid":
		r.attempt("", line, payment.StagePending)
	}
}

// clientReference names the merchant's own reference. Where the account says
// how its references begin, another one is not the merchant's.
func (r *reader) clientReference(o *object) {
	reference := referenceOf(r.text(o, "client_reference_id", o.ClientReference))
	own := strings.HasPrefix(reference, r.acc.EventPrefix)
	if reference == "" || !own {
		return
	}
	r.name(reference)
	r.ours = r.ours || r.acc.EventPrefix != ""
}

// invoice reads names alone: its money is that of the payments it names.
func (r *reader) invoice(o *object) string {
	if !absent(o.ID) { // an upcoming invoice has none
		r.own(o)
	}
	line := r.tie(o, "", o.PaymentIntent, o.Charge) // until 2025-03-31
	for i, element := range r.list(o, "payments", o.Payments) {
		path := "payments.data[" + strconv.Itoa(i) + "]"
		var p object
		if err := json.Unmarshal(element, &p, checked); err != nil {
			r.fail(o.path+"."+path, flaw(err))
			continue
		}
		r.ref(o, path+".id", p.ID, "")
		if found := r.paid(o, path+".", p.Payment); line == "" {
			line = found
		}
	}
	return line
}

func (r *reader) invoicePayment(o *object) string {
	r.own(o)
	r.ref(o, "invoice", o.Invoice, "")
	return r.paid(o, "", o.Payment)
}

// paid reads what an invoice was paid with.
func (r *reader) paid(o *object, prefix string, v jsontext.Value) string {
	if v.Kind() != '{' {
		return ""
	}
	var p struct {
		PaymentIntent jsontext.Value `json:"payment_intent"`
		Charge        jsontext.Value `json:"charge"`
	}
	if err := json.Unmarshal(v, &p, checked); err != nil {
		r.fail(o.path+"."+prefix+"payment", flaw(err))
		return ""
	}
	return r.tie(o, prefix+"payment.", p.PaymentIntent, p.Charge)
}

// tie names an intent and a charge, links them, and returns the line.
func (r *reader) tie(o *object, prefix string, intent, charge jsontext.Value) string {
	pi := r.ref(o, prefix+"payment_intent", intent, "")
	ch := r.ref(o, prefix+"charge", charge, pi)
	r.link(pi, ch)
	if pi == "" {
		return ch
	}
	return pi
}
