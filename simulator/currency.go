package simulator

import "strings"

// The currencies whose amounts obey a rule of their own. All others, those
// without decimals among them, are taken as they are: 500 is ¥500.
var (
	threeDecimal = set("bhd jod kwd omr tnd") // the last digit must be 0
	wholeUnits   = set("isk ugx")             // two decimals in the API, both always 0
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// checkAmount applies the rules that hold for every amount of the currency.
func checkAmount(param, currency string, amount int64) *apiError {
	switch {
	case amount <= 0:
		return badParam(param, "parameter_invalid_integer", "This value must be greater than or equal to 1.")
	case amount > amountMax:
		return badParam(param, "amount_too_large", "Amount must be no more than 999999999999")
	case wholeUnits[currency] && amount%100 != 0:
		return badParam(param, codeNoDecimal, "Amounts in "+currency+" must be a multiple of 100")
	case threeDecimal[currency] && amount%10 != 0:
		return badParam(param, "", "Amounts in "+currency+" have three decimals of which the last must be 0")
	}
	return nil
}

func checkCurrency(s string) (string, *apiError) {
	if s == "" {
		return "", badParam("currency", "parameter_missing", "Missing required param: currency.")
	}
	c := strings.ToLower(s)
	if len(c) != 3 || strings.Trim(c, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", badParam("currency", "", "Invalid currency: "+s)
	}
	return c, nil
}
