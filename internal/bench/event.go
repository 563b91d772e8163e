package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

const (
	accountName   = "stripe"
	secret        = "whsec_bench"
	apiVersion    = "2026-07-29.dahlia"
	amount        = 4800
	currency      = "EUR"
	eventBytes    = 2900
	cartLines     = 12
	webhookPath   = "/webhooks/" + accountName
	requestFormat = "POST " + webhookPath + " HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)\r\n" +
		"Accept: */*; q=0.5, application/xml\r\nContent-Type: application/json; charset=utf-8\r\nStripe-Signature: %s\r\nContent-Length: %d\r\n\r\n"
)

func intentID(n int) string { return fmt.Sprintf("pi_bench%08d", n) }
func orderID(n int) string  { return fmt.Sprintf("bench-%08d", n) }

// eventBody renders Stripe's event that payment n has succeeded, filled up to
// about 3 KB with what such events are filled with: the merchant's metadata.
func eventBody(event string, n int, now time.Time) []byte {
	at := strconv.FormatInt(now.Unix(), 10)
	id := intentID(n)
	body := `{"id":"` + event + `","object":"event","api_version":"` + apiVersion + `","created":` + at +
		`,"data":{"object":{"id":"` + id + `","object":"payment_intent","amount":4800,"amount_capturable":0,"amount_details":{"tip":{}},` +
		`"amount_received":4800,"application":null,"application_fee_amount":null,"automatic_payment_methods":{"allow_redirects":"always","enabled":true},` +
		`"canceled_at":null,"cancellation_reason":null,"capture_method":"automatic","client_secret":"` + id + `_secret_x","confirmation_method":"automatic",` +
		`"created":` + at + `,"currency":"eur","customer":"cus_` + strconv.Itoa(n) + `","description":"Pedido nº ` + strconv.Itoa(n) + `","last_payment_error":null,` +
		`"latest_charge":"ch_bench` + strconv.Itoa(n) + `","livemode":true,"metadata":{"order_id":"` + orderID(n) + `"%s},"next_action":null,"on_behalf_of":null,` +
		`"payment_method":"pm_` + strconv.Itoa(n) + `","payment_method_options":{"card":{"installments":null,"mandate_options":null,"network":null,"request_three_d_secure":"automatic"}},` +
		`"payment_method_types":["card"],"processing":null,"receipt_email":null,"review":null,"setup_future_usage":null,"shipping":null,"source":null,` +
		`"statement_descriptor":null,"statement_descriptor_suffix":null,"status":"succeeded","transfer_data":null,"transfer_group":null}},` +
		`"livemode":true,"pending_webhooks":1,"request":{"id":"req_` + strconv.Itoa(n) + `","idempotency_key":null},"type":"payment_intent.succeeded"}`
	var more strings.Builder
	for i := 0; len(body)+more.Len() < eventBytes; i++ {
		fmt.Fprintf(&more, `,"cart_%d":"%s"`, i, cart(n, i))
	}
	return []byte(strings.Replace(body, "%s", more.String(), 1))
}

// cart is what shops keep in a value of the metadata, of at most 500 characters.
func cart(n, part int) string {
	var lines strings.Builder
	for i := range cartLines {
		fmt.Fprintf(&lines, "%d × artículo %08x, talla %d; ", 1+i%3, uint32(n*2654435761+(part*cartLines+i)*40503), 36+i%10)
	}
	return lines.String()
}

// request renders the bytes of a whole signed delivery.
func request(event string, n int, now time.Time) []byte {
	body := eventBody(event, n, now)
	raw := fmt.Appendf(make([]byte, 0, len(body)+400), requestFormat, stripe.Sign(body, now, provider.Secret(secret)), len(body))
	return append(raw, body...)
}

// deliveries renders count events, one for each payment from 0 on, or around
// the first hot payments if that is not 0.
func deliveries(run string, count, hot int, now time.Time) [][]byte {
	list := make([][]byte, count)
	for i := range list {
		n := i
		if hot > 0 {
			n = i % hot
		}
		list[i] = request(fmt.Sprintf("evt_%s_%08d", run, i), n, now)
	}
	return list
}
