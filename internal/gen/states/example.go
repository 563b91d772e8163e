package main

import "github.com/unavez/unavez/payment"

const (
	line  = "pi_1"
	whole = 100
	part  = 60
	back  = 20
)

func euro(v int64) payment.Money { return payment.Money{Value: v, Currency: "EUR"} }

func record(speaks payment.Form) payment.Record {
	return payment.Record{
		Expected: euro(whole), Rule: payment.RuleExact, FulfillOn: payment.OnCaptured, CaptureSpeaks: speaks,
	}
}

// item is a fact of an object with its own id; an amount of 0 is not stated.
func item(kind payment.Kind, object, parent string, stage payment.Stage, amount int64) payment.Fact {
	f := payment.Fact{Kind: kind, Object: object, Parent: parent, Stage: stage}
	switch kind {
	case payment.KindAuthorization, payment.KindCapture, payment.KindRefund, payment.KindDispute:
		f.Form = payment.FormItem
	}
	if amount != 0 {
		f.Amount = euro(amount)
	}
	return f
}

func total(kind payment.Kind, object string, amount int64) payment.Fact {
	f := payment.Fact{Kind: kind, Form: payment.FormTotal, Object: object, Amount: euro(amount)}
	if kind == payment.KindAuthorization {
		f.Stage = payment.StageAuthorized
	}
	return f
}

func authorized() payment.Fact { return total(payment.KindAuthorization, line, whole) }

// example is a set of facts that shows a state.
type example struct {
	state payment.State
	facts []payment.Fact
	// text is the set in words.
	text string
}

var examples = []example{
	{payment.StateExpected, nil, "no facts"},
	{payment.StatePending, []payment.Fact{item(payment.KindAttempt, "ch_1", line, payment.StagePending, 0)},
		"an attempt pending"},
	{payment.StateAuthorized, []payment.Fact{authorized()},
		"authorized 100"},
	{payment.StatePartiallyCaptured, []payment.Fact{authorized(), total(payment.KindCapture, line, 50)},
		"authorized 100, captured 50"},
	{payment.StateCaptured, []payment.Fact{authorized(), total(payment.KindCapture, line, whole)},
		"authorized 100, captured 100"},
	{payment.StatePartiallyRefunded, []payment.Fact{authorized(), total(payment.KindCapture, line, whole), item(payment.KindRefund, "re_1", line, payment.StageSucceeded, 30)},
		"captured 100, refunded 30"},
	{payment.StateRefunded, []payment.Fact{authorized(), total(payment.KindCapture, line, whole), item(payment.KindRefund, "re_1", line, payment.StageSucceeded, whole)},
		"captured 100, refunded 100"},
	{payment.StateCanceled, []payment.Fact{authorized(), item(payment.KindAuthorization, line, "", payment.StageVoided, 0)},
		"authorized 100, voided"},
	{payment.StateFailed, []payment.Fact{item(payment.KindAttempt, "ch_1", line, payment.StageFailed, 0)},
		"an attempt failed"},
}

// rows of the state table, in the order in which they are tried.
var rows = []struct {
	when  string
	state payment.State
}{
	{"captured > 0 and refunded ≥ captured", payment.StateRefunded},
	{"captured > 0 and refunded > 0", payment.StatePartiallyRefunded},
	{"captured > 0 and captured ≥ expected (adopted: ≥ authorized)", payment.StateCaptured},
	{"captured > 0", payment.StatePartiallyCaptured},
	{"an authorized name is open", payment.StateAuthorized},
	{"a capture is pending; or, in a line that is not closed, an attempt with its own id is pending, or the line itself is and nothing failed in it", payment.StatePending},
	{"there are lines, and each is closed by expired or voided", payment.StateCanceled},
	{"an attempt failed, a capture was refused or failed, or a line was completed without capture", payment.StateFailed},
	{"some line is closed by expired or voided", payment.StateCanceled},
	{"no other row", payment.StateExpected},
}

// arrival is a fact that meets each example.
type arrival struct {
	text string
	fact payment.Fact
}

// arrivals are one fact for each kind and stage, and the totals.
func arrivals() []arrival {
	out := []arrival{
		{"link `ch_1 ~ pi_1`", payment.Link("ch_1", line)},
		{"adjustment to 120", item(payment.KindAdjustment, "adj_1", line, "", 120)},
		{"capture total 100", total(payment.KindCapture, line, whole)},
		{"refund total 100", total(payment.KindRefund, line, whole)},
		{"reversal total 100", total(payment.KindReversal, line, whole)},
	}
	for _, kind := range payment.Kinds() {
		for _, stage := range payment.Stages(kind) {
			out = append(out, staged(kind, stage))
		}
	}
	return out
}

func staged(kind payment.Kind, stage payment.Stage) arrival {
	text := string(kind) + " " + string(stage)
	switch kind {
	case payment.KindAuthorization:
		if stage == payment.StageAuthorized {
			return arrival{text + " 100", authorized()}
		}
		return arrival{text, item(kind, line, "", stage, 0)}
	case payment.KindAttempt:
		return arrival{text + " (another)", item(kind, "ch_2", line, stage, 0)}
	case payment.KindCapture:
		return arrival{text + " 60", item(kind, "cap_1", line, stage, part)}
	case payment.KindRefund:
		return arrival{text + " 20 (another)", item(kind, "re_2", line, stage, back)}
	case payment.KindDispute:
		f := item(kind, "dp_1", line, stage, whole)
		f.Round = 1
		return arrival{text + " 100", f}
	default:
		return arrival{text + " 20", item(kind, "op_1", line, stage, back)}
	}
}
