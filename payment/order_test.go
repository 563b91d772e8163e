package payment

import "testing"

// R2.3 R2.5 R2.11: the table of the order's fulfillment.
func TestJudgeOrder(t *testing.T) {
	part := func(earned int64, captured, refunded, lost int64) PartView {
		return PartView{Currency: "EUR", Earned: earned > 0, EarnedAmount: earned, GoodCaptured: captured,
			GoodLeft: captured - refunded - lost, Captured: captured, Refunded: refunded, Lost: lost}
	}
	paid, part60, part40 := part(100, 100, 0, 0), part(60, 60, 0, 0), part(40, 40, 0, 0)
	returned, disputedPart := part(100, 100, 100, 0), part(100, 100, 0, 0)
	disputedPart.GoodLeft = 0
	adopted, dollars := paid, paid
	adopted.Adopted, dollars.Currency = true, "USD"
	authorized := PartView{Currency: "EUR", Earned: true, EarnedAmount: 100}
	unearned := part(0, 60, 0, 0)
	const (
		none, held, sent, revoked = FulfillmentNone, FulfillmentHeld, FulfillmentSent, FulfillmentRevoked
	)
	for _, c := range []struct {
		name    string
		now     Fulfillment
		shipped bool
		parts   []PartView
		want    OrderVerdict
	}{
		{"nothing yet", none, false, nil, OrderVerdict{Fulfillment: none}},
		{"earned", none, false, []PartView{paid}, OrderVerdict{Fulfillment: sent, Message: MessageFulfill}},
		{"earned by authorization", none, false, []PartView{authorized}, OrderVerdict{Fulfillment: sent, Message: MessageFulfill}},
		{"one part", none, false, []PartView{part60}, OrderVerdict{Fulfillment: none}},
		{"both parts", none, false, []PartView{part60, part40}, OrderVerdict{Fulfillment: sent, Message: MessageFulfill}},
		{"money that earned nothing", none, false, []PartView{unearned, part40}, OrderVerdict{Fulfillment: none}},
		{"adopted", none, false, []PartView{adopted}, OrderVerdict{Fulfillment: none}},
		{"another currency", none, false, []PartView{dollars}, OrderVerdict{Fulfillment: none}},
		{"earned and returned", none, false, []PartView{returned}, OrderVerdict{Fulfillment: held}},
		{"earned and disputed", none, false, []PartView{disputedPart}, OrderVerdict{Fulfillment: held}},
		{"held and returned", held, false, []PartView{returned}, OrderVerdict{Fulfillment: held}},
		{"held and good again", held, false, []PartView{paid}, OrderVerdict{Fulfillment: sent, Message: MessageFulfill}},
		{"held and not earned", held, false, nil, OrderVerdict{Fulfillment: none}},
		{"sent and earned", sent, false, []PartView{paid}, OrderVerdict{Fulfillment: sent}},
		{"sent and returned", sent, false, []PartView{returned}, OrderVerdict{Fulfillment: sent}},
		{"sent and not earned", sent, false, nil, OrderVerdict{Fulfillment: revoked, Message: MessageRevoke}},
		{"sent, shipped and not earned", sent, true, nil, OrderVerdict{Fulfillment: sent, RevokedAfterShipping: true}},
		{"sent, shipped and earned", sent, true, []PartView{paid}, OrderVerdict{Fulfillment: sent}},
		{"revoked and not earned", revoked, false, nil, OrderVerdict{Fulfillment: revoked}},
		{"revoked, shipped and not earned", revoked, true, nil, OrderVerdict{Fulfillment: revoked, RevokedAfterShipping: true}},
		{"revoked and earned", revoked, false, []PartView{paid}, OrderVerdict{Fulfillment: sent, Message: MessageRestore}},
		{"revoked, earned and returned", revoked, false, []PartView{returned}, OrderVerdict{Fulfillment: sent, Message: MessageRestore}},
		{"paid twice", sent, false, []PartView{paid, paid}, OrderVerdict{Fulfillment: sent, Surplus: 100}},
		{"paid twice at once", none, false, []PartView{paid, paid}, OrderVerdict{Fulfillment: sent, Message: MessageFulfill, Surplus: 100}},
		{"paid twice, one back", sent, false, []PartView{paid, returned}, OrderVerdict{Fulfillment: sent}},
		{"paid twice, one lost in part", sent, false, []PartView{paid, part(100, 100, 0, 30)}, OrderVerdict{Fulfillment: sent, Surplus: 70}},
		{"a surplus that earned nothing", sent, false, []PartView{paid, unearned}, OrderVerdict{Fulfillment: sent, Surplus: 60}},
		{"no surplus from the adopted", sent, false, []PartView{paid, adopted, dollars}, OrderVerdict{Fulfillment: sent}},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := OrderState{Total: eur(100), Fulfillment: c.now, Shipped: c.shipped}
			got := JudgeOrder(state, c.parts)
			if got != c.want {
				t.Fatalf("%+v, want %+v", got, c.want)
			}
			// R2.5: judging again after storing the verdict changes nothing.
			state.Fulfillment = got.Fulfillment
			again := JudgeOrder(state, c.parts)
			got.Message = ""
			if again != got {
				t.Fatalf("judged again: %+v, want %+v", again, got)
			}
		})
	}
	if got := JudgeOrder(OrderState{Fulfillment: none}, []PartView{{Adopted: true, Earned: true, EarnedAmount: 5, Captured: 5}, {Earned: true, EarnedAmount: 5, Captured: 5}}); got != (OrderVerdict{Fulfillment: none}) {
		t.Errorf("without a total: %+v", got)
	}
}

// R2.3: two payments of one order, step by step in every order, fulfill once.
func TestOrderOfTwoPayments(t *testing.T) {
	type step struct {
		payment int
		fact    Fact
	}
	steps := []step{{0, authTotal("p", 100)}, {0, capTotal("p", 100)}, {1, authTotal("q", 100)}, {1, capTotal("q", 100)}}
	order := []Fact{{Version: 0}, {Version: 1}, {Version: 2}, {Version: 3}}
	permute(order, 0, func(order []Fact) {
		state := OrderState{Total: eur(200), Fulfillment: FulfillmentNone}
		var sets [2][]Fact
		told := 0
		for i, o := range order {
			s := steps[o.Version]
			sets[s.payment] = append(sets[s.payment], s.fact)
			v := JudgeOrder(state, []PartView{Part(registered(), Fold(registered(), sets[0])), Part(registered(), Fold(registered(), sets[1]))})
			state.Fulfillment = v.Fulfillment
			if v.Message != "" {
				told++
			}
			if told > 0 != (i == 3) {
				t.Fatalf("told %d after step %d", told, i)
			}
		}
	})
}
