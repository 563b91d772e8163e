package outbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks 1.0.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
	headerKey       = "Idempotency-Key"
)

// signer signs with every secret of a destination.
type signer struct{ keys [][]byte }

func newSigner(d *Destination) (signer, error) {
	var s signer
	for i, secret := range d.Secrets {
		raw, err := d.key(secret)
		if err != nil {
			return signer{}, fmt.Errorf("secret %d: %w", i+1, err)
		}
		s.keys = append(s.keys, raw)
	}
	return s, nil
}

// sign returns the time stamp and the signatures of Standard Webhooks 1.0:
// HMAC-SHA256 over "id.timestamp.body", one v1 entry for each secret.
func (s signer) sign(id string, at time.Time, body []byte) (timestamp, signature string) {
	timestamp = strconv.FormatInt(at.Unix(), 10)
	entries := make([]string, len(s.keys))
	for i, k := range s.keys {
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		entries[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return timestamp, strings.Join(entries, " ")
}
