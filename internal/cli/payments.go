package cli

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/unavez/unavez/payment"
)

func (a *app) paymentsCommand() *cobra.Command {
	return noun("payments", "Payments: our own record and what the provider says of it",
		`  unavez payments list --state captured
  unavez payments create --order A-1001 --account stripe-es --amount 48.00 --currency EUR --reference pi_1
  unavez payments timeline pay_…`,
		a.listCommand(listSpec{
			path: "/v1/payments", example: "--state captured", short: "List payments, newest first",
			columns: []column{
				{"ID", "id"}, {"ORDER", "order"}, {"ACCOUNT", "account"}, {"AMOUNT", "amount"}, {"STATE", "state"},
				{"CAPTURED", "totals.captured"}, {"REFUNDED", "totals.refunded"}, {"DISPUTE", "dispute"}, {"FULFILLMENT", "fulfillment"},
			},
			filters: []string{"account", "mode", "order", "shop", "state", "dispute", "adopted"},
			next:    "unavez payments timeline %s",
		}),
		a.getCommand("get", "Show one payment", "/v1/payments/%s", "payments get pay_…"),
		a.timelineCommand(),
		a.createPaymentCommand(),
	)
}

func (a *app) timelineCommand() *cobra.Command {
	return &cobra.Command{
		Use: "timeline ID", Short: "Show every piece of evidence about a payment, in order", Args: cobra.ExactArgs(1),
		Long:    "Shows what happened to a payment, oldest first: evidence, audit rows, messages and exceptions. With -o json each has its details.",
		Example: "  unavez payments timeline pay_…\n  unavez payments timeline pay_… -o jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			out := a.rows(column{"AT", "at"}, column{"KIND", "kind"}, column{"TYPE", "type"}, column{"OUTCOME", "outcome"},
				column{"STATE", "state"}, column{"WHO", "actor"}, column{"TO", "destination"}, column{"ID", "id"})
			more, err := a.listWhole(cmd.Context(), "/v1/payments/"+url.PathEscape(args[0])+"/timeline", nil, 0, out.add)
			if err != nil {
				return err
			}
			return out.end(more)
		},
	}
}

// createPaymentCommand registers a payment. It may be given again: the same
// registration is answered with the payment that is there.
func (a *app) createPaymentCommand() *cobra.Command {
	var order, account, amount, currency, total, rule, fulfillOn, connected string
	var references []string
	c := &cobra.Command{
		Use: "create", Short: "Register a payment to come",
		Example: `  unavez payments create --order A-1001 --account stripe-es --amount 48.00 --currency EUR --reference pi_1`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := map[string]any{"order": order, "account": account}
			money, err := payment.ParseDecimal(amount, currency)
			if err != nil {
				return usage("--amount: %v", err)
			}
			body["amount"] = money
			if total != "" {
				money, err := payment.ParseDecimal(total, currency)
				if err != nil {
					return usage("--order-total: %v", err)
				}
				body["order_total"] = money
			}
			for name, v := range map[string]string{"amount_rule": rule, "fulfill_on": fulfillOn, "connected_account": connected} {
				if v != "" {
					body[name] = v
				}
			}
			if len(references) > 0 {
				body["references"] = references
			}
			raw, status, err := a.call(cmd.Context(), http.MethodPost, "/v1/payments", nil, body)
			if err != nil {
				return err
			}
			if err := a.document(raw); err != nil {
				return err
			}
			if status == http.StatusOK && a.output == outTable {
				fmt.Fprintln(a.Err, "It was registered before.")
			}
			a.hint("unavez payments timeline %s", idOf(raw))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&order, "order", "", "the merchant's order `id` (required)")
	f.StringVar(&account, "account", "", "`name` of the account in the configuration (required)")
	f.StringVar(&amount, "amount", "", "expected `amount` in major units, as 48.00 (required)")
	f.StringVar(&currency, "currency", "", "ISO 4217 `code` (required)")
	f.StringVar(&total, "order-total", "", "what the order costs, if it is more than this payment")
	f.StringVar(&rule, "amount-rule", "", "exact or up_to")
	f.StringVar(&fulfillOn, "fulfill-on", "", "captured or authorized")
	f.StringVar(&connected, "connected-account", "", "the connected account that it belongs to")
	f.StringArrayVar(&references, "reference", nil, "a name of the payment at the provider; may be repeated")
	for _, name := range []string{"order", "account", "amount", "currency"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}

func (a *app) ordersCommand() *cobra.Command {
	var shop string
	get := &cobra.Command{
		Use: "get ID", Short: "Show one order over its payments", Example: "  unavez orders get A-1001", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := a.get(cmd.Context(), "/v1/orders/"+url.PathEscape(args[0]), shopQuery(shop))
			if err != nil {
				return err
			}
			return a.document(doc)
		},
	}
	fulfilled := &cobra.Command{
		Use: "fulfilled ID", Short: "Say that the order has been shipped", Example: "  unavez orders fulfilled A-1001", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, _, err := a.call(cmd.Context(), http.MethodPost, "/v1/orders/"+url.PathEscape(args[0])+"/fulfilled", shopQuery(shop), nil)
			if err != nil {
				return err
			}
			return a.document(raw)
		},
	}
	for _, c := range []*cobra.Command{get, fulfilled} {
		c.Flags().StringVar(&shop, "shop", "", "the shop, if it is not the default one")
	}
	return noun("orders", "Orders over all their payments", "  unavez orders list --fulfillment held\n  unavez orders get A-1001",
		a.listCommand(listSpec{
			path: "/v1/orders", example: "--fulfillment held", short: "List orders, newest first",
			columns: []column{
				{"ORDER", "id"}, {"SHOP", "shop"}, {"TOTAL", "total"}, {"CAPTURED", "captured"}, {"REFUNDED", "refunded"},
				{"SURPLUS", "surplus"}, {"FULFILLMENT", "fulfillment"},
			},
			filters: []string{"shop", "fulfillment"}, next: "unavez orders get %s",
		}), get, fulfilled)
}

func shopQuery(shop string) url.Values {
	if shop == "" {
		return nil
	}
	return url.Values{"shop": {shop}}
}

func (a *app) eventsCommand() *cobra.Command {
	payload := &cobra.Command{
		Use: "payload ID", Short: "Write the bytes exactly as they were received", Args: cobra.ExactArgs(1),
		Example: "  unavez events payload evt_… > event.json",
		Long:    "Writes the provider's bytes as they were received. With -o json or jsonl they stand base64-encoded in an object, because they may be anything.",
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, _, err := a.call(cmd.Context(), http.MethodGet, "/v1/events/"+url.PathEscape(args[0])+"/payload", nil, nil)
			if err != nil {
				return err
			}
			if a.output != outTable {
				return a.writeJSON(map[string]string{"id": args[0], "payload_base64": base64.StdEncoding.EncodeToString(raw)})
			}
			_, err = a.Out.Write(raw)
			return err
		},
	}
	return noun("events", "Events: what providers told us", `  unavez events list --state dead
  unavez events get evt_…
  unavez events redrive evt_… --reason "handler mended" --yes`,
		a.listCommand(listSpec{
			path: "/v1/events", example: "--state dead", short: "List events, newest first",
			columns: []column{
				{"ID", "id"}, {"RECEIVED", "received_at"}, {"ACCOUNT", "account"}, {"TYPE", "type"}, {"PROVIDER EVENT", "provider_event_id"},
				{"STATE", "state"}, {"OUTCOME", "outcome"}, {"SEEN", "deliveries"}, {"ORDER", "order"},
			},
			filters: []string{"account", "mode", "type", "state", "outcome", "payment", "order", "provider_event_id", "source", "variant_of"},
			next:    "unavez events get %s",
		}),
		a.getCommand("get", "Show one event", "/v1/events/%s", "events get evt_…"),
		payload,
		a.actCommand(actSpec{
			use: "redrive ID", short: "Give a dead event its attempts back, under its own identity", path: "/v1/events/%s/redrive",
			example: `events redrive evt_… --reason "configuration mended" --yes`,
			dry:     "event %s would be worked on again, under the identity that it has", reason: true, done: "unavez events get %s",
		}),
		a.tailCommand(),
	)
}

func (a *app) messagesCommand() *cobra.Command {
	return noun("messages", "Messages: what the merchant's systems are told", "  unavez messages list --state dead\n  unavez messages get msg_…",
		a.listCommand(listSpec{
			path: "/v1/messages", example: "--state pending --destination shop", short: "List messages, newest first",
			columns: []column{
				{"ID", "id"}, {"CREATED", "created_at"}, {"DESTINATION", "destination"}, {"TYPE", "type"}, {"ORDER", "order"},
				{"STATE", "state"}, {"ATTEMPTS", "attempts"}, {"NEXT ATTEMPT", "next_attempt_at"}, {"ERROR", "error"},
			},
			filters: []string{"destination", "type", "state", "payment", "order"}, next: "unavez messages get %s",
		}),
		a.getCommand("get", "Show one message with its attempts", "/v1/messages/%s", "messages get msg_…"),
		a.actCommand(actSpec{
			use: "retry ID", short: "Send a dead or ambiguous message again, under its own id", path: "/v1/messages/%s/retry",
			example: `messages retry msg_… --reason "the shop is back" --yes`,
			dry:     "message %s would be sent again with the id that it has", reason: true, done: "unavez messages get %s",
		}),
	)
}

func (a *app) destinationsCommand() *cobra.Command {
	return noun("destinations", "Destinations: the merchant's systems that are told", "  unavez destinations list\n  unavez destinations test shop",
		a.destinationsList(),
		a.actCommand(actSpec{
			use: "pause NAME", short: "Hold back everything for a destination", path: "/v1/destinations/%s/pause", reason: true,
			example: `destinations pause shop --reason "the shop moves house"`,
			done:    "unavez destinations resume %s",
		}),
		a.actCommand(actSpec{
			use: "resume NAME", short: "Send to a destination again", path: "/v1/destinations/%s/resume", reason: true,
			example: `destinations resume shop --reason "the shop has moved"`, done: "unavez messages list --destination %s",
		}),
		a.actCommand(actSpec{
			use: "test NAME", short: "Send a test message", path: "/v1/destinations/%s/test", example: "destinations test shop",
			done: "unavez messages list --destination %s",
		}),
	)
}

func (a *app) destinationsList() *cobra.Command {
	return a.listCommand(listSpec{
		path: "/v1/destinations", short: "List destinations with their breakers", next: "unavez destinations test %s",
		columns: []column{
			{"NAME", "name"}, {"URL", "url"}, {"TYPES", "types"}, {"PAUSED", "paused"}, {"BREAKER", "breaker"}, {"IDEMPOTENT", "idempotent"},
		},
	})
}

// idOf reads the id of a document.
func idOf(doc []byte) string {
	var d struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(doc, &d) != nil {
		return "ID"
	}
	return plain(d.ID)
}

func (a *app) exceptionsCommand() *cobra.Command {
	return noun("exceptions", "Exceptions: what needs a person", "  unavez exceptions list --state open\n  unavez exceptions get exc_…",
		a.listCommand(listSpec{
			path: "/v1/exceptions", example: "--state open", short: "List exceptions, newest first",
			columns: []column{
				{"ID", "id"}, {"OPENED", "opened_at"}, {"KIND", "kind"}, {"REASON", "reason"}, {"STATE", "state"}, {"URGENCY", "urgency"},
				{"AMOUNT", "amount"}, {"ORDER", "order"}, {"EVENT", "provider_event_id"},
			},
			filters: []string{"kind", "state", "account", "event", "provider_event_id", "payment", "order", "operation", "message"},
			next:    "unavez exceptions get %s",
		}),
		a.getCommand("get", "Show one exception with its evidence", "/v1/exceptions/%s", "exceptions get exc_…"),
	)
}

func (a *app) auditCommand() *cobra.Command {
	var subject string
	verify := &cobra.Command{
		Use: "verify", Short: "Recompute a subject's chain, or all of them, and name the first row that does not fit",
		Example: "  unavez audit verify\n  unavez audit verify --subject pay_…", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if subject != "" {
				query.Set("subject", subject)
			}
			doc, err := a.get(cmd.Context(), "/v1/audit/verify", query)
			if err != nil {
				return err
			}
			if err := a.document(doc); err != nil {
				return err
			}
			return broken(doc)
		},
	}
	verify.Flags().StringVar(&subject, "subject", "", "`id` of the payment, order, event or message; all of them if empty")
	return noun("audit", "Audit: who changed what, when, because of what", "  unavez audit list --subject pay_…\n  unavez audit verify --subject pay_…",
		a.listCommand(listSpec{
			path: "/v1/audit", example: "--subject pay_…", short: "List audit rows, newest first",
			columns: []column{
				{"AT", "at"}, {"SUBJECT", "subject"}, {"VERSION", "version"}, {"ACTION", "action"}, {"ACTOR", "actor"}, {"EVENT", "event"},
			},
			filters: []string{"subject", "action", "actor"},
		}), verify)
}

func (a *app) searchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "search ID", Short: "Find anything by any id: ours, the provider's, the order's",
		Example: "  unavez search pi_1\n  unavez search A-1001", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := a.rows(column{"TYPE", "type"}, column{"ID", "id"}, column{"MATCH", "match"}, column{"ORDER", "order"}, column{"STATE", "state"})
			doc, err := a.get(cmd.Context(), "/v1/search", url.Values{"q": {args[0]}})
			if err != nil {
				return err
			}
			p, err := readPage(doc)
			if err != nil {
				return err
			}
			for _, hit := range p.Data {
				if err := out.add(hit); err != nil {
					return err
				}
			}
			if err := out.end(p.HasMore); err != nil {
				return err
			}
			if len(p.Data) == 0 {
				return &exitError{exitNotFound, fmt.Errorf("nothing has the id %s", strconv.Quote(args[0]))}
			}
			return nil
		},
	}
}
