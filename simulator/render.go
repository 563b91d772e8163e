package simulator

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The API versions at which shapes change that matter for payments.
const (
	versionNoCharges  = "2022-11-15" // intents no longer embed their charges
	versionInvoicePay = "2025-03-31" // invoices no longer name their payment
)

func encode(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		panic("simulator: impossible: an object that cannot be encoded: " + err.Error())
	}
	return b
}

// text is null where the provider shows null for nothing.
func text(v string) any {
	if v == "" {
		return nil
	}
	return v
}

func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Unix()
}

func (s *Server) head(b base, noun string) object {
	return object{"id": b.id, "object": noun, "created": b.created.Unix(), "livemode": s.cfg.Live}
}

func (s *Server) showIntent(in *intent) object {
	o := s.head(in.base, "payment_intent")
	capture := "automatic"
	switch {
	case in.manual:
		capture = "manual"
	case in.async:
		capture = "automatic_async"
	}
	add(o, object{
		"amount": in.amount, "amount_capturable": in.capturable, "amount_received": in.received,
		"amount_details": object{"tip": object{}}, "application": nil, "application_fee_amount": nil,
		"automatic_payment_methods": nil, "canceled_at": instant(in.canceledAt),
		"cancellation_reason": text(in.cancelReason), "capture_method": capture,
		"client_secret": in.id + "_secret_" + in.id[3:], "confirmation_method": "automatic",
		"currency": in.currency, "customer": text(in.customer), "description": text(in.description),
		"last_payment_error": in.lastError, "latest_charge": nil, "metadata": in.metadata,
		"next_action": nil, "on_behalf_of": nil, "payment_method": text(in.method),
		"payment_method_options": object{}, "payment_method_types": []string{"card"},
		"processing": nil, "receipt_email": nil, "review": nil, "setup_future_usage": nil,
		"shipping": nil, "statement_descriptor": nil, "status": in.status,
		"transfer_data": nil, "transfer_group": nil,
	})
	if in.lastError == nil {
		o["last_payment_error"] = nil
	}
	if in.status == intentRequiresAction {
		o["next_action"] = object{"type": "use_stripe_sdk", "use_stripe_sdk": object{}}
	}
	if in.latest != nil {
		o["latest_charge"] = in.latest.id
	}
	if s.cfg.APIVersion < versionNoCharges {
		data := []object{}
		if in.latest != nil {
			data = append(data, s.showCharge(in.latest))
		}
		o["charges"] = object{"object": "list", "data": data, "has_more": false, "url": "/v1/charges?payment_intent=" + in.id}
	}
	return o
}

// shownRefunded is the charge's amount_refunded, which may include what was
// released without ever having been captured.
func (s *Server) shownRefunded(ch *charge) int64 {
	if s.cfg.ReleaseAsRefund {
		return ch.refunded + ch.released
	}
	return ch.refunded
}

func (s *Server) showCharge(ch *charge) object {
	o := s.head(ch.base, "charge")
	back := s.shownRefunded(ch)
	add(o, object{
		"amount": ch.amount, "amount_captured": ch.captured, "amount_refunded": back,
		"application": nil, "application_fee": nil, "application_fee_amount": nil,
		"balance_transaction": text(ch.txn), "billing_details": object{"address": nil, "email": nil, "name": nil, "phone": nil},
		"captured": ch.settled || ch.captured > 0, "currency": ch.intent.currency, "customer": text(ch.intent.customer),
		"description": text(ch.intent.description), "disputed": ch.disputed,
		"failure_code": text(ch.failure), "failure_message": nil, "invoice": nil,
		"metadata": ch.intent.metadata, "outcome": nil, "paid": ch.status == statusSucceeded,
		"payment_intent": ch.intent.id, "payment_method": text(ch.intent.method),
		"payment_method_details": object{"type": "card", "card": object{"brand": "visa", "last4": "4242"}},
		"receipt_url":            nil, "refunded": back > 0 && back >= ch.captured+shownReleased(s, ch),
		"shipping": nil, "status": ch.status,
	})
	if ch.failure != "" {
		o["failure_message"] = "Your card was declined."
	}
	return o
}

func shownReleased(s *Server, ch *charge) int64 {
	if s.cfg.ReleaseAsRefund {
		return ch.released
	}
	return 0
}

func (s *Server) showRefund(re *refund) object {
	o := s.head(re.base, "refund")
	delete(o, "livemode")
	add(o, object{
		"amount": re.amount, "balance_transaction": text(re.txn), "charge": re.charge.id,
		"currency": re.charge.intent.currency, "destination_details": object{"type": "card", "card": object{"type": "refund"}},
		"metadata": re.metadata, "payment_intent": re.charge.intent.id, "reason": text(re.reason),
		"receipt_number": nil, "source_transfer_reversal": nil, "status": re.status, "transfer_reversal": nil,
	})
	if re.failure != "" {
		o["failure_reason"] = re.failure
	}
	if re.failureTxn != "" {
		o["failure_balance_transaction"] = re.failureTxn
	}
	return o
}

func (s *Server) showDispute(d *dispute) object {
	o := s.head(d.base, "dispute")
	txns := []object{}
	for _, id := range d.txns {
		t, _ := s.txns.get(id)
		txns = append(txns, s.showTxn(t))
	}
	return add(o, object{
		"amount": d.amount, "balance_transactions": txns, "charge": d.charge.id,
		"currency": d.charge.intent.currency, "evidence": object{}, "evidence_details": object{"has_evidence": d.status == disputeReview},
		"is_charge_refundable": false, "metadata": object{}, "payment_intent": d.charge.intent.id,
		"reason": d.reason, "status": d.status,
	})
}

func (s *Server) showSession(cs *session) object {
	o := s.head(cs.base, "checkout.session")
	add(o, object{
		"amount_subtotal": cs.amount, "amount_total": cs.amount, "client_reference_id": text(cs.reference),
		"currency": cs.currency, "customer": nil, "invoice": nil, "metadata": cs.metadata, "mode": "payment",
		"payment_intent": nil, "payment_status": cs.payment, "status": cs.status, "subscription": nil, "url": nil,
	})
	if cs.intent != nil {
		o["payment_intent"] = cs.intent.id
		o["customer"] = text(cs.intent.customer)
	}
	return o
}

func (s *Server) showInvoice(in *invoice) object {
	o := s.head(in.base, "invoice")
	add(o, object{
		"amount_due": in.amount, "amount_paid": in.amount, "amount_remaining": 0, "attempted": true,
		"billing_reason": "manual", "currency": in.intent.currency, "customer": text(in.intent.customer),
		"lines":    object{"object": "list", "data": []object{}, "has_more": false, "url": "/v1/invoices/" + in.id + "/lines"},
		"metadata": in.metadata, "number": nil, "status": "paid", "subtotal": in.amount, "total": in.amount,
	})
	if s.cfg.APIVersion < versionInvoicePay {
		add(o, object{"paid": true, "payment_intent": in.intent.id, "charge": in.intent.latest.id})
	}
	return o
}

// showInvoicePayment is the object that ties an invoice to its payment in the
// API versions in which the invoice itself no longer does.
func (s *Server) showInvoicePayment(in *invoice) object {
	o := s.head(base{id: in.payment, created: in.created}, "invoice_payment")
	return add(o, object{
		"amount_paid": in.amount, "amount_requested": in.amount, "currency": in.intent.currency,
		"invoice": in.id, "is_default": true, "status": "paid",
		"payment": object{"type": "payment_intent", "payment_intent": in.intent.id},
	})
}

func (s *Server) showTxn(t *txn) object {
	o := s.head(t.base, "balance_transaction")
	delete(o, "livemode")
	return add(o, object{
		"amount": t.amount, "available_on": t.created.Unix(), "currency": t.currency,
		"description": text(t.describe), "exchange_rate": nil, "fee": t.fee, "fee_details": []object{},
		"net": t.amount - t.fee, "reporting_category": t.category, "source": t.source,
		"status": "available", "type": t.typ,
	})
}

func add(o, more object) object {
	for k, v := range more {
		o[k] = v
	}
	return o
}

// expand replaces ids by the objects that they name, one level deep, for paths
// such as latest_charge and data.payment_intent.
func (s *Server) expand(o object, paths []string) {
	for _, path := range paths {
		targets := []object{o}
		if rest, ok := strings.CutPrefix(path, "data."); ok {
			path, targets = rest, nil
			if rows, ok := o["data"].([]object); ok {
				targets = rows
			}
		}
		for _, t := range targets {
			if id, ok := t[path].(string); ok {
				if found := s.showAny(id); found != nil {
					t[path] = found
				}
			}
		}
	}
}

func (s *Server) showAny(id string) object {
	prefix, _, _ := strings.Cut(id, "_")
	switch prefix {
	case "pi":
		if v, ok := s.intents.get(id); ok {
			return s.showIntent(v)
		}
	case "ch":
		if v, ok := s.charges.get(id); ok {
			return s.showCharge(v)
		}
	case "txn":
		if v, ok := s.txns.get(id); ok {
			return s.showTxn(v)
		}
	}
	return nil
}
