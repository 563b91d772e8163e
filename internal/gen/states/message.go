package main

import (
	"fmt"
	"strings"

	"github.com/unavez/unavez/payment"
)

func renderNotifications(b *strings.Builder) {
	b.WriteString("## Notifications\n\nOne record for each identity and payment. It is sent once; or superseded for good when something higher of the same object is known already; or held while it speaks of money of a line that is not recognized. An account's captures speak in one form, so that one business fact does not speak twice.\n\n")
	header(b, "fact", "captures by total", "captures by item", "identity")
	all := append([]arrival{{"authorization total 100", authorized()}}, arrivals()...)
	for _, a := range all {
		if a.text == "authorization authorized 100" {
			a = arrival{a.text + " (item)", item(payment.KindAuthorization, line, "", payment.StageAuthorized, whole)}
		}
		byTotal, key := says(payment.FormTotal, a.fact)
		byItem, otherKey := says(payment.FormItem, a.fact)
		if key == "" {
			key = otherKey
		}
		if key != "" {
			row(b, a.text, byTotal, byItem, "`"+strings.ReplaceAll(key, "|", " ")+"`")
		}
	}
	fmt.Fprintf(b, "\n`%s` is told once per payment, when its condition first holds. Refund and reversal totals, links and reservations say nothing.\n\n",
		payment.MessageMoneyAfterCancel)
}

func says(form payment.Form, f payment.Fact) (message, key string) {
	for _, n := range payment.Notifications(record(form), []payment.Fact{f}) {
		return "`" + n.Type + "`", n.Key()
	}
	return "–", ""
}

func renderOrder(b *strings.Builder) {
	b.WriteString("## Fulfillment of an order\n\nAn order is earned when the recognized lines of its registered payments hold its total, and returned when nothing of that money is left uncontested. `order.fulfill` is sent at most once. After the merchant has said that it shipped, a revocation is an exception instead of a message.\n\n")
	header(b, "now", "earned", "returned", "shipped", "then", "message")
	for _, now := range []payment.Fulfillment{payment.FulfillmentNone, payment.FulfillmentHeld, payment.FulfillmentSent, payment.FulfillmentRevoked} {
		for _, money := range []struct{ earned, returned bool }{{true, false}, {true, true}, {false, false}} {
			for _, shipped := range []bool{false, true} {
				if told := now == payment.FulfillmentSent || now == payment.FulfillmentRevoked; shipped && (!told || money.earned) {
					continue
				}
				judged(b, now, money.earned, money.returned, shipped)
			}
		}
	}
}

func judged(b *strings.Builder, now payment.Fulfillment, earned, returned, shipped bool) {
	p := payment.PartView{Currency: "EUR"}
	if earned {
		p.Earned, p.EarnedAmount, p.GoodCaptured, p.GoodLeft = true, whole, whole, whole
	}
	if returned {
		p.GoodLeft = 0
	}
	v := payment.JudgeOrder(payment.OrderState{Total: euro(whole), Fulfillment: now, Shipped: shipped}, []payment.PartView{p})
	message := "–"
	switch {
	case v.RevokedAfterShipping:
		message = "exception"
	case v.Message != "":
		message = "`" + v.Message + "`"
	}
	backText := yes(returned)
	if !earned {
		backText = "any"
	}
	row(b, "`"+string(now)+"`", yes(earned), backText, yes(shipped), "`"+string(v.Fulfillment)+"`", message)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
