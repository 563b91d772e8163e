package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
	"github.com/unavez/unavez/simulator"
)

func (a *app) simulatorCommand() *cobra.Command {
	var listen, webhook, secret string
	var seed uint64
	c := &cobra.Command{
		Use: "simulator", Short: "Serve a simulated Stripe that keeps books and can be told to fail",
		Example: `  unavez simulator --webhook http://127.0.0.1:8080/webhooks/stripe-es --secret-env STRIPE_WHSEC
  curl http://127.0.0.1:12111/_simulator/books`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := simulator.Config{WebhookURL: webhook, Seed: seed, Logger: slog.New(slog.NewTextHandler(a.Err, nil))}
			if secret != "" {
				if cfg.WebhookSecret = a.getenv(secret); cfg.WebhookSecret == "" {
					return usage("--secret-env: the environment variable %s is not set", secret)
				}
			}
			return a.runSimulator(cmd.Context(), listen, simulator.New(cfg))
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:12111", "`address` to serve on")
	c.Flags().StringVar(&webhook, "webhook", "", "`URL` that webhooks go to")
	c.Flags().StringVar(&secret, "secret-env", "", "environment `variable` that holds the endpoint's secret")
	c.Flags().Uint64Var(&seed, "seed", 0, "seed of ids and of chance")
	return c
}

func (a *app) runSimulator(ctx context.Context, listen string, sim *simulator.Server) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if err := sim.Start(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	srv := &http.Server{Handler: sim, ReadHeaderTimeout: healthWithin}
	done := make(chan error, 1)
	go func() { done <- serving(srv.Serve(l)) }()
	fmt.Fprintf(a.Err, "simulator  http://%s/v1  control http://%s/_simulator/books\n", l.Addr(), l.Addr())
	select {
	case err = <-done:
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), edgeWithin)
		defer cancel()
		err = errors.Join(srv.Close(), <-done, sim.Stop(stop))
	}
	return err
}

// Events and faults of simulate.
const (
	eventSucceeded = "payment_intent.succeeded"
	eventFailed    = "payment_intent.payment_failed"
	eventRefunded  = "charge.refunded"

	faultDuplicate  = "duplicate"
	faultOutOfOrder = "out-of-order"
	faultSignature  = "bad-signature"
)

type simulation struct {
	account, order, amount, currency, reference, fault string
	repeat                                             int
}

func (a *app) simulateCommand() *cobra.Command {
	var s simulation
	c := &cobra.Command{
		Use: "simulate PROVIDER EVENT", Short: "Post signed events to the real endpoint of a running server",
		Long: "Posts signed test events to the ingress of the configuration, as the provider would.\n" +
			"Events: payment_intent.succeeded, payment_intent.payment_failed, charge.refunded.\n\n" +
			"--fault duplicate posts each of them twice. --fault out-of-order also posts what happened a minute before\n" +
			"(a declined attempt, or the payment that is refunded), the later one first. --fault bad-signature signs with\n" +
			"another secret and succeeds if all are refused.",
		Example: `  unavez simulate stripe payment_intent.succeeded --order A-1001 --amount 48.00 --currency EUR --reference pi_1
  unavez simulate stripe payment_intent.succeeded --order A-1001 --amount 48.00 --currency EUR --fault duplicate
  unavez simulate stripe charge.refunded --order A-1002 --amount 10.00 --currency EUR --fault out-of-order`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "stripe" {
				return &exitError{exitNotFound, fmt.Errorf("provider %q cannot be simulated; stripe can", args[0])}
			}
			return a.simulate(cmd.Context(), args[1], s)
		},
	}
	f := c.Flags()
	f.StringVar(&s.account, "account", "", "`name` of the account; needed if several are of the provider")
	f.StringVar(&s.order, "order", "", "order `id` in the metadata")
	f.StringVar(&s.amount, "amount", "10.00", "`amount` in major units")
	f.StringVar(&s.currency, "currency", "EUR", "ISO 4217 `code`")
	f.StringVar(&s.reference, "reference", "", "payment intent `id`; a new one if empty")
	f.IntVar(&s.repeat, "repeat", 1, "events to post")
	f.StringVar(&s.fault, "fault", "", "duplicate, out-of-order or bad-signature")
	return c
}

func (a *app) simulate(ctx context.Context, event string, s simulation) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	acc, err := simulated(c, s.account)
	if err != nil {
		return err
	}
	bodies, err := s.events(event, acc)
	if err != nil {
		return err
	}
	secret := acc.Secrets[0]
	if s.fault == faultSignature {
		secret = "whsec_not_the_secret"
	}
	out := a.rows(column{"EVENT", "event"}, column{"STATUS", "status"})
	refused := 0
	for i, body := range bodies {
		status, err := post(ctx, "http://"+dialable(c.Listen.Ingress)+"/webhooks/"+acc.Name, body, secret)
		if err != nil {
			return err
		}
		if status >= http.StatusBadRequest {
			refused++
		}
		if err := out.add(fmt.Appendf(nil, `{"event":%d,"status":%d}`, i+1, status)); err != nil {
			return err
		}
	}
	if err := out.end(false); err != nil {
		return err
	}
	switch {
	case s.fault == faultSignature && refused < len(bodies):
		return fmt.Errorf("%d of %d deliveries with a wrong signature were taken", len(bodies)-refused, len(bodies))
	case s.fault == faultSignature:
		fmt.Fprintln(a.Err, "All were refused, as they should be.")
		return nil
	case refused > 0:
		err := fmt.Errorf("%d of %d deliveries were refused; the server's log says why", refused, len(bodies))
		if refused < len(bodies) {
			return &exitError{exitPartly, err}
		}
		return err
	}
	a.hint("unavez events list --account %s", acc.Name)
	return nil
}

func simulated(c unavez.Config, name string) (unavez.Account, error) {
	var found []unavez.Account
	for _, acc := range c.Accounts {
		if acc.Provider == "stripe" && (name == "" || acc.Name == name) {
			found = append(found, acc)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return unavez.Account{}, usage("%d accounts are of the provider; name one with --account", len(found))
	case name != "":
		return unavez.Account{}, usage("the configuration has no account %q of the provider", name)
	}
	return unavez.Account{}, usage("the configuration has no account of the provider; name the file with --config")
}

// events renders the bodies to post, in the order of posting.
func (s simulation) events(event string, acc unavez.Account) ([][]byte, error) {
	money, err := payment.ParseDecimal(s.amount, s.currency)
	if err != nil {
		return nil, usage("--amount: %v", err)
	}
	amount, err := payment.ToProvider(money, stripe.Amounts())
	if err != nil {
		return nil, usage("--amount: %v", err)
	}
	if s.repeat < 1 || s.repeat > 10000 {
		return nil, usage("--repeat is not between 1 and 10000")
	}
	life, err := s.life(event)
	if err != nil {
		return nil, err
	}
	var bodies [][]byte
	for range s.repeat {
		intent := s.reference
		if intent == "" {
			intent = "pi_" + nonce()
		}
		for i, event := range life {
			// Whatever order they are posted in, they say when they happened.
			created := time.Now().Add(time.Duration(i+1-len(life)) * time.Minute)
			body, err := s.render(event, intent, amount, created, acc)
			if err != nil {
				return nil, err
			}
			bodies = append(bodies, body)
		}
	}
	switch s.fault {
	case faultDuplicate:
		bodies = append(bodies, bodies...)
	case faultOutOfOrder:
		slices.Reverse(bodies)
	}
	return bodies, nil
}

// life lists what to post for one event, in the order in which it happened: the
// event alone, or, to be out of order, what came before it as well.
func (s simulation) life(event string) ([]string, error) {
	before, known := map[string]string{
		eventSucceeded: eventFailed, eventFailed: "", eventRefunded: eventSucceeded,
	}[event]
	switch {
	case !known:
		return nil, &exitError{exitNotFound, fmt.Errorf("event %q cannot be simulated; see unavez simulate --help", event)}
	case !slices.Contains([]string{"", faultDuplicate, faultOutOfOrder, faultSignature}, s.fault):
		return nil, usage("--fault is %q, not duplicate, out-of-order or bad-signature", s.fault)
	case s.fault != faultOutOfOrder:
		return []string{event}, nil
	case before == "":
		return nil, usage("nothing comes before %s; try --fault out-of-order with %s", event, eventSucceeded)
	}
	return []string{before, event}, nil
}

func (s simulation) render(event, intent string, amount int64, created time.Time, acc unavez.Account) ([]byte, error) {
	object := map[string]any{"amount": amount, "currency": strings.ToLower(s.currency), "metadata": map[string]string{}}
	if s.order != "" {
		object["metadata"] = map[string]string{acc.OrderMetadata: s.order}
	}
	switch event {
	case eventSucceeded:
		maps.Copy(object, map[string]any{
			"object": "payment_intent", "id": intent, "status": "succeeded", "amount_received": amount, "latest_charge": "ch_" + intent,
		})
	case eventFailed:
		maps.Copy(object, map[string]any{
			"object": "payment_intent", "id": intent, "status": "requires_payment_method", "amount_received": 0, "latest_charge": "ch_failed_" + intent,
		})
	case eventRefunded:
		maps.Copy(object, map[string]any{
			"object": "charge", "id": "ch_" + intent, "payment_intent": intent, "status": "succeeded", "captured": true,
			"amount_captured": amount, "amount_refunded": amount,
		})
	}
	body, err := json.Marshal(map[string]any{
		"id": "evt_" + nonce(), "object": "event", "api_version": "2024-06-20", "created": created.Unix(),
		"livemode": acc.Mode == provider.Live, "type": event, "data": map[string]any{"object": object},
	}, json.Deterministic(true))
	if err != nil {
		return nil, usage("the event cannot be written: %v", err)
	}
	return body, nil
}

func nonce() string { return fmt.Sprintf("sim%016x", rand.Uint64()) }

func post(ctx context.Context, url string, body []byte, secret provider.Secret) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, usage("the ingress cannot be addressed: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Stripe-Signature", stripe.Sign(body, time.Now(), secret))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("no answer from %s (is unavez serve running with this configuration?): %w", url, bare(err))
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, answerBytesMax))
	return resp.StatusCode, err
}
