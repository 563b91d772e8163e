package payment

// Fulfillment is the axis of an order.
type Fulfillment string

// The states of the fulfillment of an order.
const (
	// FulfillmentNone: the order is not earned.
	FulfillmentNone Fulfillment = "none"
	// FulfillmentHeld: earned, and not told because the money went back or is disputed.
	FulfillmentHeld Fulfillment = "held"
	// FulfillmentSent: order.fulfill was told, and nothing withdrew it since.
	FulfillmentSent Fulfillment = "sent"
	// FulfillmentRevoked: told, then the money failed.
	FulfillmentRevoked Fulfillment = "revoked"
)

// The messages of an order.
const (
	MessageFulfill = "order.fulfill"
	MessageRevoke  = "order.revoked"
	MessageRestore = "order.restored"
)

// OrderState is what the order's row says before the judgment.
type OrderState struct {
	// Total is zero while no merchant has registered a payment of the order.
	Total       Money
	Fulfillment Fulfillment
	// Shipped: the merchant has said that the goods are gone.
	Shipped bool
}

// PartView is what one payment of the order brings to the judgment; amounts in
// minor units of Currency, as in View.
type PartView struct {
	Currency     string
	Adopted      bool
	Earned       bool
	EarnedAmount int64
	GoodCaptured int64
	GoodLeft     int64
	Captured     int64
	Refunded     int64
	Lost         int64
}

// Part takes from a payment's record and view what its order is judged by.
func Part(r Record, v View) PartView {
	return PartView{
		Currency: v.Currency, Adopted: r.Adopted, Earned: v.Earned, EarnedAmount: v.EarnedAmount,
		GoodCaptured: v.GoodCaptured, GoodLeft: v.GoodLeft,
		Captured: v.Totals.Captured, Refunded: v.Totals.Refunded, Lost: v.Totals.Lost,
	}
}

// OrderVerdict is what follows for the order.
type OrderVerdict struct {
	// Fulfillment is the state to store.
	Fulfillment Fulfillment
	// Message is to be told now, MessageFulfill at most once in an order's life; or "".
	Message string
	// RevokedAfterShipping holds while the money behind shipped goods is gone:
	// an exception instead of a message.
	RevokedAfterShipping bool
	// Surplus is what the payments hold beyond the total, minor units of its currency.
	Surplus int64
}

// JudgeOrder judges an order over all of its payments. Payments that nobody
// registered and payments in another currency bring nothing. It is a function
// of its arguments: judging again after storing the verdict changes nothing.
func JudgeOrder(o OrderState, payments []PartView) OrderVerdict {
	var earned, goodCaptured, goodLeft, kept int64
	for i := range payments {
		p := &payments[i]
		if p.Adopted || p.Currency != o.Total.Currency {
			continue
		}
		kept = sat(kept, max(0, p.Captured-p.Refunded-p.Lost))
		if p.Earned {
			earned = sat(earned, p.EarnedAmount)
			goodCaptured = sat(goodCaptured, p.GoodCaptured)
			goodLeft = sat(goodLeft, p.GoodLeft)
		}
	}
	registered := o.Total.Currency != ""
	v := OrderVerdict{Fulfillment: o.Fulfillment}
	if registered {
		v.Surplus = max(0, kept-o.Total.Value)
	}
	isEarned := registered && earned > 0 && earned >= o.Total.Value
	isReturned := goodCaptured > 0 && goodLeft == 0
	told := o.Fulfillment == FulfillmentSent || o.Fulfillment == FulfillmentRevoked
	switch {
	case !told && !isEarned:
		v.Fulfillment = FulfillmentNone
	case !told && isReturned:
		v.Fulfillment = FulfillmentHeld
	case !told:
		v.Fulfillment, v.Message = FulfillmentSent, MessageFulfill
	case o.Fulfillment == FulfillmentRevoked && isEarned:
		v.Fulfillment, v.Message = FulfillmentSent, MessageRestore
	case !isEarned && o.Shipped:
		v.RevokedAfterShipping = true
	case o.Fulfillment == FulfillmentSent && !isEarned:
		v.Fulfillment, v.Message = FulfillmentRevoked, MessageRevoke
	}
	return v
}
