package campaign

import (
	"fmt"
	"time"
)

// delivery is one event as the provider sends it.
type delivery struct {
	// ID is the provider's event id.
	ID      string
	Account string
	Order   string
	Body    string
}

// eventBody is the provider's envelope around an object.
func eventBody(id, kind, object string) string {
	return fmt.Sprintf(`{"id":%q,"object":"event","api_version":"2025-03-31.basil","type":%q,"livemode":false,"created":%d,"data":{"object":%s}}`,
		id, kind, time.Now().Unix(), object)
}

// intent is a payment intent of an order.
type intent struct {
	id, order, status string
	amount, received  int64
	capturable        int64
	currency          string
}

func (p intent) json() string {
	currency := p.currency
	if currency == "" {
		currency = "eur"
	}
	metadata := ""
	if p.order != "" {
		metadata = fmt.Sprintf(`"order_id":%q`, p.order)
	}
	return fmt.Sprintf(`{"id":%q,"object":"payment_intent","livemode":false,"status":%q,"amount":%d,"amount_received":%d,"amount_capturable":%d,"currency":%q,"latest_charge":"ch_%s","metadata":{%s}}`,
		p.id, p.status, p.amount, p.received, p.capturable, currency, p.id, metadata)
}

// succeeded says that a payment of the whole amount was captured.
func succeeded(event, intentID, order string, amount int64) delivery {
	p := intent{id: intentID, order: order, status: "succeeded", amount: amount, received: amount}
	return delivery{ID: event, Account: account, Order: order, Body: eventBody(event, "payment_intent.succeeded", p.json())}
}

// processing says that a payment is on its way.
func processing(event, intentID, order string, amount int64) delivery {
	p := intent{id: intentID, order: order, status: "processing", amount: amount}
	return delivery{ID: event, Account: account, Order: order, Body: eventBody(event, "payment_intent.processing", p.json())}
}

// refunded says that a refund of a payment succeeded.
func refunded(event, intentID, order, refund string, amount int64) delivery {
	object := fmt.Sprintf(`{"id":%q,"object":"refund","amount":%d,"currency":"eur","status":"succeeded","charge":"ch_%s","payment_intent":%q,"created":%d,"metadata":{}}`,
		refund, amount, intentID, intentID, time.Now().Unix())
	return delivery{ID: event, Account: account, Order: order, Body: eventBody(event, "refund.updated", object)}
}
