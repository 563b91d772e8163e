package outbox

import (
	"testing"
	"time"

	"github.com/unavez/unavez/provider"
)

// The published vector of Standard Webhooks 1.0, and each secret signs while
// they rotate.
func TestSignVector(t *testing.T) {
	const (
		secret = provider.Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		id     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
		body   = `{"test": 2432232314}`
		want   = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	)
	at := time.Unix(1614265330, 999_999_999)
	for _, c := range []struct {
		secrets []provider.Secret
		want    string
	}{
		{[]provider.Secret{secret}, want},
		{[]provider.Secret{secret, secret}, want + " " + want},
	} {
		s, err := newSigner(&Destination{Secrets: c.secrets})
		if err != nil {
			t.Fatal(err)
		}
		timestamp, signature := s.sign(id, at, []byte(body))
		if timestamp != "1614265330" || signature != c.want {
			t.Errorf("%s %s, want %s", timestamp, signature, c.want)
		}
	}
	if _, err := newSigner(&Destination{Secrets: []provider.Secret{""}}); err == nil {
		t.Error("an empty secret signs")
	}
}
