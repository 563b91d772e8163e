package stripe

import (
	"strings"
	"time"

	"github.com/unavez/unavez/provider"
)

// The tolerance of a signature's time stamp. Stripe's own libraries look at the
// past alone; a stamp in the future would let a captured request live on.
const (
	tolerancePast   = 300 * time.Second
	toleranceFuture = 300 * time.Second
)

// acknowledgeWithin is our budget for an answer. Stripe states no limit; it is
// how long Checkout waits at most before it sends the customer on.
const acknowledgeWithin = 10 * time.Second

// Where and when the contract was read.
const (
	readOn       = "2026-12-01"
	docWebhooks  = "https://docs.stripe.com/webhooks"
	docMissed    = "https://docs.stripe.com/webhooks/process-undelivered-events"
	docErrors    = "https://docs.stripe.com/error-low-level"
	docRequests  = "https://docs.stripe.com/api/idempotent_requests"
	docCurrency  = "https://docs.stripe.com/currencies"
	srcWebhooks  = "stripe/stripe-go@a1e3932f webhooks.go"
	srcEvent     = "stripe/stripe-go@a1e3932f event.go"
	srcClient    = "stripe/stripe-go@a1e3932f stripe.go"
	srcEvents    = "stripe/stripe-node@66394216 src/resources/Events.ts"
	iskNotice    = "https://support.stripe.com/questions/deprecation-of-fractional-isk-charges-and-refunds"
	wooLists     = "woocommerce-gateway-stripe includes/class-wc-stripe-helper.php"
	thirdParties = "reports of third parties"
)

func says(value string, confidence provider.Confidence, source string) provider.Statement {
	return provider.Statement{Value: value, Confidence: confidence, Source: source, Read: readOn}
}

func detail(topic, value string, confidence provider.Confidence, source string) provider.Detail {
	return provider.Detail{Topic: topic, Statement: says(value, confidence, source)}
}

// namesOnly stands for the facts of types that say whose payment something is
// and never what it moved.
const namesOnly = "none; names and links that tie it to the payment"

// Contract returns Stripe's delivery contract.
func (Adapter) Contract() *provider.Contract {
	return &provider.Contract{
		Provider: "stripe", Title: "Stripe",
		Identity:         []string{"account (of a connected account)", "id"},
		IdentityNote:     says("id (evt_…) is unique per account and mode, and the same on retries and manual resends", provider.Documented, docWebhooks),
		Account:          says("account (acct_…) stands in events of connected accounts alone; absent means the endpoint's own account. livemode tells live from test", provider.FromSource, srcEvent),
		Payment:          says("payment_intent, or charge where there is none; checkout session and invoice are tied to it by the ids they carry", provider.FromSource, srcEvents),
		Signature:        says("Stripe-Signature: t=<seconds>,v1=<hex>[,v1=<hex>…][,v0=<hex>]: HMAC-SHA256 over \"<t>.\" and the raw body; the key is the whole text of the secret, whsec_ included, not decoded", provider.FromSource, srcWebhooks),
		SignatureHeaders: []string{signatureHeader},
		Ordering:         says("none guaranteed; created has whole seconds and neither orders nor identifies", provider.Documented, docWebhooks),
		Retries:          says("live: up to 3 days with exponential backoff, intervals not published; sandbox: 3 attempts over a few hours. Disabling or deleting the endpoint cancels them", provider.Documented, docWebhooks),
		ManualResend:     says("dashboard up to 15 days, stripe events resend up to 30 days; the same event id", provider.Recalled, docWebhooks),
		Acknowledge:      says("any 2xx, the body is ignored; 3xx is a failure", provider.Documented, docWebhooks),
		TimeLimit:        says("not stated as a number; third parties report 20 to 30 s, Checkout waits up to 10 s before it redirects. We keep to 10 s", provider.Uncertain, thirdParties),
		Batching:         says("one event per request", provider.Documented, docWebhooks),
		SecondEvents:     says("two different events may describe one change: deduplicate on data.object.id and type as well; facts do that here", provider.Documented, docWebhooks),
		MissedEvents:     says("GET /v1/events?delivery_success=false&types[]=…&ending_before=evt_…: at most 20 types, the last 30 days", provider.Documented, docMissed),
		APIIdempotency:   says("Idempotency-Key on POST, at most 255 characters, pruned once at least 24 h old; the first status and body are replayed, errors 500 included", provider.Documented, docRequests),
		TolerancePast:    tolerancePast, ToleranceFuture: toleranceFuture, AcknowledgeWithin: acknowledgeWithin,
		Amounts: says("integers in minor units, lower-case currency. Otherwise than ISO 4217: ISK and UGX have 2 decimals that are zero (ISO 0), MGA has none (ISO 2)", provider.ThirdParty, wooLists),
		Details: details(),
		Events:  append([]provider.EventType(nil), events...),
	}
}

func details() []provider.Detail {
	return []provider.Detail{
		detail("transport", "HTTPS POST with a JSON body", provider.Documented, docWebhooks),
		detail("signature header", "split on commas, each part on its equals sign; unknown schemes are ignored; a v1 that is not hexadecimal is skipped and not fatal", provider.FromSource, srcWebhooks),
		detail("signed text", "t is printed as the decimal of the number that was read", provider.FromSource, srcWebhooks),
		detail("signature encoding", "lower-case hexadecimal, compared in constant time", provider.FromSource, srcWebhooks),
		detail("rotation of secrets", "several v1 while a rolled secret overlaps; any match accepts", provider.FromSource, srcWebhooks),
		detail("overlap of secrets", "up to 24 h, chosen when rolling", provider.Recalled, docWebhooks),
		detail("age of signatures", "libraries refuse more than 300 s in the past and accept the future; we refuse 300 s on either side", provider.FromSource, srcWebhooks),
		detail("signature of retries", "t and the signature are made anew for each attempt, so a retry days later passes", provider.FromSource, srcWebhooks),
		detail("refusals in libraries", "not signed, invalid header, no valid signature, too old", provider.FromSource, srcWebhooks),
		detail("API versions", "libraries refuse events of another release train; an endpoint's version is set once, so shapes of several versions are read here", provider.FromSource, srcWebhooks),
		detail("thin events", "object v2.core.event, created in RFC 3339, the body only refers to an object: kept, no facts; for a person if the object is a payment's", provider.FromSource, srcEvent),
		detail("context", "newer versions also carry context; in thin events it names the connected account", provider.FromSource, srcEvent),
		detail("our own call", "request.idempotency_key is the key of the API call that caused the event, null for automatic ones; request.id its req_…", provider.FromSource, srcEvent),
		detail("what changed", "data.previous_attributes on types that tell of an update", provider.Documented, docWebhooks),
		detail("zero-decimal currencies", "BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF: the amount is in major units", provider.Documented, docCurrency),
		detail("three-decimal currencies", "BHD JOD KWD OMR TND: the last digit of what is sent must be 0; IQD and LYD are not on the list", provider.ThirdParty, wooLists),
		detail("ISK", "two decimals that must be zero, else 400 invalid_charge_amount_no_decimal_compatible (since 2023-04-14)", provider.Documented, iskNotice),
		detail("UGX", "the same treatment; older lists call it zero-decimal", provider.ThirdParty, wooLists),
		detail("HUF", "charges with 2 decimals; manual payouts only in multiples of 100", provider.Documented, docCurrency),
		detail("TWD", "charges with 2 decimals; manual payouts only in multiples of 100", provider.Recalled, docCurrency),
		detail("Idempotency-Key: where", "POST of v1, and DELETE of v2; ignored for GET and DELETE of v1", provider.Documented, docRequests),
		detail("Idempotency-Key: length", "at most 255 characters", provider.Documented, docRequests),
		detail("Idempotency-Key: retention", "at least 24 h; after that the same key is a new execution. v2: 30 days, and failed work is resumed", provider.Documented, docRequests),
		detail("Idempotency-Key: what is stored", "status and body once execution has begun, card errors and 500 included; not parameter errors, 401, 429 or conflicts", provider.Documented, docRequests),
		detail("Idempotency-Key: other parameters", "400 of type idempotency_error; parameters and endpoint are compared", provider.Documented, docRequests),
		detail("Idempotency-Key: concurrent", "409 with code idempotency_key_in_use: retry with the same key", provider.ThirdParty, thirdParties),
		detail("Idempotency-Key: replay", "header Idempotent-Replayed: true; the key is echoed", provider.ThirdParty, thirdParties),
		detail("Idempotency-Key: scope", "account and mode; Stripe-Account selects another account's keys; another endpoint or version is a mismatch", provider.Inferred, docRequests),
		detail("retries of calls", "Stripe-Should-Retry decides; else 409, 5xx and network errors, 0.5 s to 5 s with jitter", provider.FromSource, srcClient),
		detail("lock_timeout", "contention on an object, 429: safe to retry", provider.Recalled, docErrors),
		detail("partial capture", "amount_refunded may contain what was released without having been captured", provider.Uncertain, thirdParties),
	}
}

// events lists the types that are read. One that is not listed is kept and
// acknowledged; the names it mentions are learned.
var events = []provider.EventType{
	{Type: "payment_intent.created", Means: "a new intent, no money", Facts: "attempt pending"},
	{Type: "payment_intent.requires_action", Means: "the customer has to do something", Facts: "attempt pending"},
	{Type: "payment_intent.processing", Means: "an asynchronous method has begun", Facts: "attempt pending"},
	{Type: typeCapturable, Means: "authorized, or the authorization has grown", Facts: "authorization (also the former amount), captured so far"},
	{Type: "payment_intent.succeeded", Means: "captured", Facts: "authorization, captured so far, authorization completed"},
	{Type: typeIntentFailed, Means: "one attempt failed, another may follow", Facts: "attempt failed"},
	{Type: "payment_intent.canceled", Means: "voided or expired", Facts: "authorization voided"},
	{Type: "charge.succeeded", Means: "authorized, and captured if it says so", Facts: "authorization, captured and refunded so far"},
	{Type: "charge.pending", Means: "an attempt is on its way", Facts: "attempt pending"},
	{Type: "charge.failed", Means: "an attempt failed", Facts: "attempt failed"},
	{Type: "charge.captured", Means: "an authorized charge was captured", Facts: "authorization, captured and refunded so far"},
	{Type: "charge.updated", Means: "metadata, or an asynchronous capture", Facts: "authorization, captured and refunded so far"},
	{Type: typeChargeExpired, Means: "an authorization lapsed", Facts: "authorization, authorization expired"},
	{Type: "charge.refunded", Means: "refunded, also in part; a cumulative figure", Facts: "authorization, captured and refunded so far"},
	{Type: "refund.created", Means: "a refund", Facts: "refund at its status"},
	{Type: "refund.updated", Means: "a refund", Facts: "refund at its status"},
	{Type: "refund.failed", Means: "a refund failed, perhaps after it had succeeded", Facts: "refund failed"},
	{Type: "charge.refund.updated", Means: "a refund, for some methods", Facts: "refund at its status"},
	{Type: "charge.dispute.created", Means: "an inquiry or a dispute", Facts: "dispute at its status"},
	{Type: "charge.dispute.updated", Means: "evidence and the like", Facts: "dispute at its status"},
	{Type: typeFundsWithdrawn, Means: "the disputed money was taken", Facts: "dispute at its status, and open"},
	{Type: typeFundsBack, Means: "the disputed money came back", Facts: "dispute at its status, and won"},
	{Type: "charge.dispute.closed", Means: "won, lost or dropped", Facts: "dispute at its status"},
	{Type: "charge.dispute.*", Means: "any other word on a dispute", Facts: "dispute at its status"},
	{Type: "checkout.session.completed", Means: "paid, or will be", Facts: "authorization and captured so far if paid, else attempt pending"},
	{Type: "checkout.session.async_payment_succeeded", Means: "paid later", Facts: "authorization and captured so far"},
	{Type: typeSessionFailed, Means: "not paid after all", Facts: "attempt failed"},
	{Type: typeSessionExpired, Means: "nobody paid in time", Facts: "authorization expired"},
	{Type: "invoice.*", Means: "an invoice of the payment", Facts: namesOnly},
	{Type: "invoice_payment.*", Means: "ties an invoice to a payment (since 2025-03-31)", Facts: namesOnly},
}

// speaks says whether the contract has a meaning for the type.
func speaks(typ string) bool {
	for _, e := range events {
		prefix, open := strings.CutSuffix(e.Type, "*")
		if e.Type == typ || open && strings.HasPrefix(typ, prefix) {
			return true
		}
	}
	return false
}
