package simulator

import "regexp"

// page answers a list, newest first: rows stand in the order of their making.
// Cursors name a row; starting_after goes towards older ones, ending_before
// towards newer ones.
func page[T any](c *call, rows []T, at func(string) (int, bool), keep func(T) bool, show func(T) object) (object, *apiError) {
	limit, bad := pageLimit(c.params)
	if bad != nil {
		return nil, bad
	}
	older, newer := c.params.get("starting_after"), c.params.get("ending_before")
	if older != "" && newer != "" {
		return nil, badParam("ending_before", "", "You can only specify one of these parameters: starting_after, ending_before.")
	}
	from, step := len(rows)-1, -1
	if cursor := older + newer; cursor != "" {
		i, ok := at(cursor)
		if !ok {
			e := missing("object", cursor)
			e.status, e.param = 400, "starting_after"
			return nil, e
		}
		if newer != "" {
			step = 1
		}
		from = i + step
	}
	data, more := []object{}, false
	for i := from; i >= 0 && i < len(rows); i += step {
		if !keep(rows[i]) {
			continue
		}
		if int64(len(data)) == limit {
			more = true
			break
		}
		data = append(data, show(rows[i]))
	}
	if step > 0 {
		for i, j := 0, len(data)-1; i < j; i, j = i+1, j-1 {
			data[i], data[j] = data[j], data[i]
		}
	}
	return object{"object": "list", "url": c.url, "data": data, "has_more": more}, nil
}

func pageLimit(p params) (int64, *apiError) {
	if !p.has("limit") {
		return pageDefault, nil
	}
	n, bad := p.integer("limit")
	if bad == nil && (n < 1 || n > pageMax) {
		bad = badParam("limit", "parameter_invalid_integer", "Limit must be between 1 and 100")
	}
	return n, bad
}

// filters are equalities that a list checks: parameter → the row's value.
func filtered[T any](c *call, t *table[T], b func(T) base, fields func(T) map[string]string, show func(T) object) (object, *apiError) {
	created, bad := c.params.span("created")
	if bad != nil {
		return nil, bad
	}
	keep := func(row T) bool {
		head := b(row)
		if head.account != c.account || !created.holds(head.created.Unix()) {
			return false
		}
		for name, value := range fields(row) {
			if c.params.has(name) && c.params.get(name) != value {
				return false
			}
		}
		return true
	}
	at := func(id string) (int, bool) { i, ok := t.index[id]; return i, ok }
	return page(c, t.rows, at, keep, show)
}

func listIntents(c *call) (object, *apiError) {
	return filtered(c, &c.srv.intents, func(in *intent) base { return in.base },
		func(in *intent) map[string]string { return map[string]string{"customer": in.customer} }, c.srv.showIntent)
}

func listCharges(c *call) (object, *apiError) {
	return filtered(c, &c.srv.charges, func(ch *charge) base { return ch.base },
		func(ch *charge) map[string]string {
			return map[string]string{"payment_intent": ch.intent.id, "customer": ch.intent.customer}
		}, c.srv.showCharge)
}

func listRefunds(c *call) (object, *apiError) {
	return filtered(c, &c.srv.refunds, func(re *refund) base { return re.base },
		func(re *refund) map[string]string {
			return map[string]string{"payment_intent": re.charge.intent.id, "charge": re.charge.id}
		}, c.srv.showRefund)
}

func listDisputes(c *call) (object, *apiError) {
	return filtered(c, &c.srv.disputes, func(d *dispute) base { return d.base },
		func(d *dispute) map[string]string {
			return map[string]string{"payment_intent": d.charge.intent.id, "charge": d.charge.id}
		}, c.srv.showDispute)
}

func listSessions(c *call) (object, *apiError) {
	return filtered(c, &c.srv.sessions, func(cs *session) base { return cs.base },
		func(cs *session) map[string]string {
			f := map[string]string{"payment_intent": "", "status": cs.status}
			if cs.intent != nil {
				f["payment_intent"] = cs.intent.id
			}
			return f
		}, c.srv.showSession)
}

func listInvoices(c *call) (object, *apiError) {
	return filtered(c, &c.srv.invoices, func(in *invoice) base { return in.base },
		func(in *invoice) map[string]string {
			return map[string]string{"customer": in.intent.customer, "status": "paid"}
		}, c.srv.showInvoice)
}

// listTxns also takes payout=, which finds nothing: there are no payouts here.
func listTxns(c *call) (object, *apiError) {
	return filtered(c, &c.srv.txns, func(t *txn) base { return t.base },
		func(t *txn) map[string]string {
			return map[string]string{"type": t.typ, "source": t.source, "currency": t.currency, "payout": ""}
		}, c.srv.showTxn)
}

// searchTerm is one of metadata['k']:'v', status:'v', currency:'v', customer:'v'.
var searchTerm = regexp.MustCompile(`^\s*(?:metadata\[(?:'([^']*)'|"([^"]*)")\]|(status|currency|customer))\s*:\s*(?:'([^']*)'|"([^"]*)")\s*`)

var searchAnd = regexp.MustCompile(`^(?i:AND)\b`)

func parseSearch(query string) ([]func(*intent) bool, *apiError) {
	var terms []func(*intent) bool
	for rest := query; ; {
		m := searchTerm.FindStringSubmatch(rest)
		if m == nil {
			return nil, badParam("query", "", "We were unable to parse your search query.")
		}
		key, field, value := m[1]+m[2], m[3], m[4]+m[5]
		terms = append(terms, func(in *intent) bool {
			switch field {
			case "status":
				return in.status == value
			case "currency":
				return in.currency == value
			case "customer":
				return in.customer == value
			}
			got, ok := in.metadata[key]
			return ok && got == value
		})
		rest = rest[len(m[0]):]
		if rest == "" {
			return terms, nil
		}
		and := searchAnd.FindString(rest)
		if and == "" {
			return nil, badParam("query", "", "We were unable to parse your search query.")
		}
		rest = rest[len(and):]
	}
}

// searchIntents does not see objects younger than the configured delay.
func searchIntents(c *call) (object, *apiError) {
	s := c.srv
	if c.params.get("query") == "" {
		return nil, badParam("query", "parameter_missing", "Missing required param: query.")
	}
	terms, bad := parseSearch(c.params.get("query"))
	if bad != nil {
		return nil, bad
	}
	limit, bad := pageLimit(c.params)
	if bad != nil {
		return nil, bad
	}
	from := len(s.intents.rows) - 1
	if cursor := c.params.get("page"); cursor != "" {
		i, ok := s.intents.index[cursor]
		if !ok {
			return nil, badParam("page", "", "Invalid page")
		}
		from = i - 1
	}
	out := object{"object": "search_result", "url": c.url, "has_more": false, "next_page": nil}
	data := []object{}
	last := ""
rows:
	for i := from; i >= 0; i-- {
		in := s.intents.rows[i]
		if in.account != c.account || in.created.Add(s.cfg.SearchDelay).After(c.now) {
			continue
		}
		for _, holds := range terms {
			if !holds(in) {
				continue rows
			}
		}
		if int64(len(data)) == limit {
			out["has_more"], out["next_page"] = true, last
			break
		}
		data, last = append(data, s.showIntent(in)), in.id
	}
	out["data"] = data
	return out, nil
}
