package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/simulator"
)

// price is what every order costs, in minor units of currency.
const (
	price    = 4800
	currency = "EUR"
)

// plan is what will happen to one order.
type plan struct {
	order string
	// late registers the payment only after the customer has paid.
	late bool
	// manual captures in a second step.
	manual bool
	// decline lets a first attempt fail.
	decline bool
	// refunds are given back one after the other.
	refunds []int64
	// dispute is lost by the shop.
	dispute bool
}

// plans draws what happens to each order.
func plans(n int, random *rand.Rand) []plan {
	list := make([]plan, n)
	for i := range list {
		p := plan{order: fmt.Sprintf("D-%04d", i+1), late: random.IntN(4) == 0, manual: random.IntN(4) == 0, decline: random.IntN(10) == 0}
		switch random.IntN(20) {
		case 0:
			p.refunds = []int64{price}
		case 1:
			p.refunds = []int64{1000, 1000, 500}
		case 2:
			p.dispute = true
		}
		list[i] = p
	}
	return list
}

// buy lets one customer go through a plan. Every call is repeated until it has
// an answer, under a key of its own, as a careful shop does.
func (d *demo) buy(ctx context.Context, p plan) error {
	intent, err := d.provider(ctx, p.order+"/create", "/v1/payment_intents", url.Values{
		"amount": {strconv.Itoa(price)}, "currency": {strings.ToLower(currency)}, "metadata[order_id]": {p.order},
		"capture_method": {map[bool]string{true: "manual", false: "automatic"}[p.manual]}, "payment_method": {"pm_card_visa"},
	})
	if err != nil {
		return err
	}
	register := func() error { return d.register(ctx, p.order, intent) }
	if !p.late {
		if err := register(); err != nil {
			return err
		}
	}
	if p.decline {
		_, err := d.provider(ctx, p.order+"/declined", "/v1/payment_intents/"+intent+"/confirm", url.Values{"payment_method": {"pm_card_chargeDeclined"}})
		if err != nil && !errors.Is(err, errRefused) {
			return err
		}
	}
	if _, err := d.provider(ctx, p.order+"/confirm", "/v1/payment_intents/"+intent+"/confirm", url.Values{"payment_method": {"pm_card_visa"}}); err != nil {
		return err
	}
	if p.manual {
		if _, err := d.provider(ctx, p.order+"/capture", "/v1/payment_intents/"+intent+"/capture", nil); err != nil {
			return err
		}
	}
	for i, amount := range p.refunds {
		form := url.Values{"payment_intent": {intent}, "amount": {strconv.FormatInt(amount, 10)}}
		if _, err := d.provider(ctx, fmt.Sprintf("%s/refund/%d", p.order, i), "/v1/refunds", form); err != nil {
			return err
		}
	}
	if p.dispute {
		if err := d.dispute(intent); err != nil {
			return err
		}
	}
	if p.late {
		return register()
	}
	return nil
}

func (d *demo) dispute(intent string) error {
	opened, err := d.sim.Trigger(simulator.Trigger{Type: simulator.DisputeOpen, PaymentIntent: intent})
	if err != nil {
		return fmt.Errorf("disputing %s: %w", intent, err)
	}
	if _, err := d.sim.Trigger(simulator.Trigger{Type: simulator.DisputeLose, Dispute: opened.Object}); err != nil {
		return fmt.Errorf("losing the dispute of %s: %w", intent, err)
	}
	return nil
}

// errRefused is a definite no of the provider.
var errRefused = errors.New("the provider refused")

// provider calls the simulated provider until it answers, and returns the id of
// the object.
func (d *demo) provider(ctx context.Context, key, path string, form url.Values) (string, error) {
	for try := 0; ; try++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.simURL+path, strings.NewReader(form.Encode()))
		if err != nil {
			return "", err
		}
		req.Header.Set("Authorization", "Bearer "+providerKey)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Idempotency-Key", key)
		status, raw, err := d.send(req)
		switch {
		case err != nil || status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusConflict:
			if try >= triesMax || !pause(ctx, retryPause) {
				return "", fmt.Errorf("calling %s: status %d: %w", path, status, errors.Join(err, ctx.Err()))
			}
			continue
		case status >= http.StatusBadRequest:
			return "", fmt.Errorf("calling %s: status %d: %w", path, status, errRefused)
		}
		var object struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			return "", fmt.Errorf("reading the answer of %s: %w", path, err)
		}
		return object.ID, nil
	}
}

// register tells the server of the payment to come, again and again while the
// server is being killed.
func (d *demo) register(ctx context.Context, order, intent string) error {
	body, err := json.Marshal(map[string]any{
		"order": order, "account": account, "amount": map[string]any{"value": price, "currency": currency}, "references": []string{intent},
	})
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		status, _, err := d.api(ctx, http.MethodPost, "/v1/payments", body)
		if err == nil && status < http.StatusBadRequest {
			return nil
		}
		final := err == nil && status < http.StatusInternalServerError && status != http.StatusConflict
		if final || try >= triesMax || !pause(ctx, retryPause) {
			return fmt.Errorf("registering the payment of %s: status %d: %w", order, status, errors.Join(err, ctx.Err()))
		}
	}
}

// api calls the private API of the server.
func (d *demo) api(ctx context.Context, method, path string, body []byte) (int, jsontext.Value, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.node.private+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+d.node.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return d.send(req)
}

func (d *demo) send(req *http.Request) (int, jsontext.Value, error) {
	resp, err := d.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, err
}

// pause waits between two tries; false says that the time is over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
