package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/unavez/unavez/payment"
)

// The verdicts.
const (
	Agree  = "agree"
	Differ = "differ"
)

// Sums are minor units by currency.
type Sums map[string]int64

// Money is what one side says was captured, given back, and taken by disputes.
type Money struct {
	Captured Sums `json:"captured"`
	Refunded Sums `json:"refunded"`
	Disputed Sums `json:"disputed"`
}

// Effects count the orders that had to be fulfilled, by the provider's books,
// and what the shop saw of it. Once and Held add up to Expected.
type Effects struct {
	Expected     int `json:"expected"`
	Once         int `json:"once"`
	Held         int `json:"held"`
	MoreThanOnce int `json:"more_than_once"`
	Missing      int `json:"missing"`
}

// Report is the result; its JSON is part of the outside interface.
type Report struct {
	Verdict     string   `json:"verdict"`
	Seed        uint64   `json:"seed"`
	Seconds     float64  `json:"seconds"`
	Payments    int      `json:"payments"`
	Deliveries  int      `json:"deliveries"`
	Duplicates  int      `json:"duplicates"`
	OutOfOrder  int      `json:"out_of_order"`
	LostAnswers int      `json:"lost_answers"`
	Kills       int      `json:"kills"`
	Books       Money    `json:"books"`
	Ledger      Money    `json:"ledger"`
	Effects     Effects  `json:"effects"`
	Unresolved  int      `json:"unresolved"`
	Differences []string `json:"differences"`
}

func (r *Report) differ(format string, args ...any) {
	r.Differences = append(r.Differences, fmt.Sprintf(format, args...))
}

// judge compares the three books.
func (r *Report) judge() {
	compare := func(what string, books, ledger Sums) {
		for _, c := range currencies(books, ledger) {
			if books[c] != ledger[c] {
				r.differ("%s: the provider's books say %s, the ledger says %s", what, amount(books[c], c), amount(ledger[c], c))
			}
		}
	}
	compare("captured", r.Books.Captured, r.Ledger.Captured)
	compare("refunded", r.Books.Refunded, r.Ledger.Refunded)
	compare("disputed", r.Books.Disputed, r.Ledger.Disputed)
	if r.Effects.MoreThanOnce > 0 {
		r.differ("%d order(s) were fulfilled more than once", r.Effects.MoreThanOnce)
	}
	if r.Effects.Missing > 0 {
		r.differ("%d order(s) were never fulfilled", r.Effects.Missing)
	}
	if r.Unresolved > 0 {
		r.differ("%d event(s) or message(s) are not settled", r.Unresolved)
	}
	r.Verdict = Agree
	if len(r.Differences) > 0 {
		r.Verdict = Differ
	}
}

func currencies(all ...Sums) []string {
	var list []string
	for _, s := range all {
		for c := range s {
			list = append(list, c)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func amount(v int64, currency string) string {
	text, err := payment.Money{Value: v, Currency: currency}.Decimal()
	if err != nil {
		return fmt.Sprint(v) + " " + currency
	}
	return text + " " + currency
}

func (s Sums) String() string {
	var parts []string
	for _, c := range currencies(s) {
		parts = append(parts, amount(s[c], c))
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }
	line("what was done", fmt.Sprintf("%d payments; the provider delivered %d times", r.Payments, r.Deliveries))
	line("what went wrong on purpose", fmt.Sprintf("%d duplicates, %d out of order, %d lost answers, the server killed %d times",
		r.Duplicates, r.OutOfOrder, r.LostAnswers, r.Kills))
	line("", "")
	line("", "captured", "refunded", "disputed")
	line("the provider's books", r.Books.Captured.String(), r.Books.Refunded.String(), r.Books.Disputed.String())
	line("our ledger", r.Ledger.Captured.String(), r.Ledger.Refunded.String(), r.Ledger.Disputed.String())
	line("", "")
	e := r.Effects
	line("orders to fulfill", fmt.Sprint(e.Expected))
	line("the shop fulfilled once", fmt.Sprint(e.Once))
	line("held, the money had gone back", fmt.Sprint(e.Held))
	line("more than once", fmt.Sprint(e.MoreThanOnce))
	line("never", fmt.Sprint(e.Missing))
	if err := t.Flush(); err != nil {
		return err
	}
	for _, d := range r.Differences {
		fmt.Fprintln(w, "DIFFERENCE:", d)
	}
	_, err := fmt.Fprintf(w, "\nVerdict: %s, in %.1f seconds, seed %d\n", strings.ToUpper(r.Verdict), r.Seconds, r.Seed)
	return err
}
