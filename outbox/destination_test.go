package outbox

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/internal/safedial"
	"github.com/unavez/unavez/provider"
)

const textSecret = provider.Secret("a text of more than 16 bytes")

func whsec(bytes int) provider.Secret {
	return provider.Secret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, bytes)))
}

func good() Destination {
	return Destination{Name: "shop", URL: "https://shop.example/hook", Types: []string{"*"}, Secrets: []provider.Secret{textSecret}}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Destination)
		want   string // part of the only problem, empty for none
	}{
		{"good", func(*Destination) {}, ""},
		{"rotating", func(d *Destination) { d.Secrets = []provider.Secret{whsec(24), whsec(64), textSecret} }, ""},
		{"unpadded base64", func(d *Destination) {
			d.Secrets[0] = provider.Secret(strings.TrimRight(string(whsec(25)), "="))
		}, ""},
		{"private http", func(d *Destination) { d.URL, d.AllowPrivate = "http://127.0.0.1:8080/x?y=z", true }, ""},
		{"public address", func(d *Destination) { d.URL = "https://8.8.8.8/hook" }, ""},
		{"a provider's secret for its events", func(d *Destination) { d.Types, d.Secrets[0] = []string{"event.*"}, "whsec_test_secret" }, ""},
		{"a provider's secret for our messages too", func(d *Destination) { d.Types, d.Secrets[0] = []string{"event.*", "*"}, "whsec_test_secret" }, "base64"},
		{"own header", func(d *Destination) { d.Headers = map[string]string{"X-Shop": "1"} }, ""},
		{"no name", func(d *Destination) { d.Name = "" }, "name"},
		{"odd name", func(d *Destination) { d.Name = "Shop 1" }, "name"},
		{"long name", func(d *Destination) { d.Name = strings.Repeat("a", 65) }, "name"},
		{"http", func(d *Destination) { d.URL = "http://shop.example/hook" }, "allow_private"},
		{"other scheme", func(d *Destination) { d.URL = "ftp://shop.example/hook" }, "scheme"},
		{"no host", func(d *Destination) { d.URL = "https:///hook" }, "absolute"},
		{"a port and no host", func(d *Destination) { d.URL = "https://:443/hook" }, "absolute"},
		{"no URL", func(d *Destination) { d.URL = "" }, "absolute"},
		{"relative", func(d *Destination) { d.URL = "/hook" }, "absolute"},
		{"credentials", func(d *Destination) { d.URL = "https://me:canary@shop.example/" }, "credentials"},
		{"fragment", func(d *Destination) { d.URL = "https://shop.example/#x" }, "fragment"},
		{"private address", func(d *Destination) { d.URL = "https://127.0.0.1/hook" }, "loopback"},
		{"mapped address", func(d *Destination) { d.URL = "https://[::ffff:10.0.0.1]/hook" }, "mapped"},
		{"metadata", func(d *Destination) { d.URL, d.AllowPrivate = "http://169.254.169.254/", true }, "link-local"},
		{"no types", func(d *Destination) { d.Types = nil }, "no types"},
		{"odd type", func(d *Destination) { d.Types = []string{"refund*"} }, "refund*"},
		{"no secret", func(d *Destination) { d.Secrets = nil }, "0 secrets"},
		{"nine secrets", func(d *Destination) { d.Secrets = make9() }, "9 secrets"},
		{"empty secret", func(d *Destination) { d.Secrets[0] = "" }, "0 bytes"},
		{"empty secret", func(d *Destination) { d.Secrets[0] = "" }, "0 bytes"},
		{"long text", func(d *Destination) { d.Secrets[0] = provider.Secret(strings.Repeat("c", 257)) }, "257 bytes"},
		{"empty key", func(d *Destination) { d.Secrets[0] = "whsec_" }, "0 bytes"},
		{"long key", func(d *Destination) { d.Secrets[0] = whsec(65) }, "65 bytes"},
		{"long key", func(d *Destination) { d.Secrets[0] = whsec(65) }, "65 bytes"},
		{"no base64", func(d *Destination) { d.Secrets[0] = "whsec_canary!canary!canary!canary!" }, "base64"},
		{"negative timeout", func(d *Destination) { d.Timeout = -1 }, "timeout"},
		{"long timeout", func(d *Destination) { d.Timeout = 31 * time.Second }, "timeout"},
		{"concurrency", func(d *Destination) { d.Concurrency = 1000 }, "concurrency"},
		{"our header", func(d *Destination) { d.Headers = map[string]string{"webhook-id": "x"} }, "delivery itself"},
		{"host header", func(d *Destination) { d.Headers = map[string]string{"host": "x"} }, "delivery itself"},
		{"odd header", func(d *Destination) { d.Headers = map[string]string{"a b": "x"} }, "valid header"},
		{"split header", func(d *Destination) { d.Headers = map[string]string{"X-A": "canary\r\nX-B: 1"} }, "valid header"},
	} {
		d := good()
		c.change(&d)
		err := Validate([]Destination{d})
		if (c.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "\n") > 0) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v tells a secret", c.name, err)
		}
	}
}

func make9() []provider.Secret {
	var nine []provider.Secret
	for range 9 {
		nine = append(nine, textSecret)
	}
	return nine
}

func TestValidateTellsAllProblemsAtOnce(t *testing.T) {
	a, b, c := good(), good(), good()
	a.URL, a.Types = "http://10.0.0.1/", []string{"", "x*"}
	c.Name, c.Secrets = "", nil
	err := Validate([]Destination{a, b, c})
	for _, want := range []string{"allow_private", "an empty type", `"x*"`, "used twice", "number 3", "0 secrets"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %q", err, want)
		}
	}
	d := good()
	d.URL = "https://10.0.0.1/"
	if err := Validate([]Destination{d}); !errors.Is(err, safedial.ErrRefused) {
		t.Errorf("%v does not wrap what refused the address", err)
	}
	if err := Validate(nil); err != nil {
		t.Errorf("no destinations: %v", err)
	}
}

// R6.7: a lease outlasts the time limit of an attempt twice, or nothing starts.
func TestLeaseOutlastsTheTimeLimitTwice(t *testing.T) {
	slow := good()
	slow.Timeout = 20 * time.Second
	if _, err := New(nil, []Destination{slow}, Options{Lease: 39 * time.Second}); err == nil || !strings.Contains(err.Error(), "lease") {
		t.Errorf("a lease of less than twice the time limit: %v", err)
	}
	for _, lease := range []time.Duration{0, 40 * time.Second} {
		r, err := New(nil, []Destination{slow}, Options{Lease: lease})
		if err != nil || r.opt.Lease < 40*time.Second {
			t.Errorf("lease %s: %v, %v", lease, r, err)
		}
	}
}
