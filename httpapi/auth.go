package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/unavez/unavez/store"
)

// tokenBytesMax bounds what is hashed for an unknown caller.
const tokenBytesMax = 512

// principal is the caller: the credential's name and role.
type principal struct {
	name string
	role Role
}

var errUnauthenticated = errors.New("httpapi: no valid token")

// door knows the tokens of the configuration and asks the ledger for the rest.
type door struct {
	store   store.Store
	fixed   []fixedToken
	now     func() time.Time
	logger  *slog.Logger
	mu      sync.Mutex
	touched map[string]time.Time
}

type fixedToken struct {
	principal
	hash [sha256.Size]byte
}

func newDoor(d *Deps) (*door, error) {
	in := &door{store: d.Store, now: d.Now, logger: d.Logger, touched: map[string]time.Time{}}
	for _, t := range d.Tokens {
		if !t.Role.known() || t.Name == "" || t.Secret == "" {
			return nil, fmt.Errorf("httpapi: token %q has no name, secret or known role", t.Name)
		}
		in.fixed = append(in.fixed, fixedToken{principal{t.Name, t.Role}, sha256.Sum256([]byte(t.Secret))})
	}
	return in, nil
}

// enter returns who shows the token of the request, or errUnauthenticated.
func (d *door) enter(r *http.Request) (principal, error) {
	token, ok := bearer(r.Header)
	if !ok {
		return principal{}, errUnauthenticated
	}
	hash := sha256.Sum256([]byte(token))
	var found principal
	for i := range d.fixed {
		// Every token is compared, so that the time tells nothing of their order.
		if subtle.ConstantTimeCompare(hash[:], d.fixed[i].hash[:]) == 1 {
			found = d.fixed[i].principal
		}
	}
	if found.name != "" {
		return found, nil
	}
	return d.stored(r.Context(), hash[:])
}

func bearer(h http.Header) (string, bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= tokenBytesMax
}

func (d *door) stored(ctx context.Context, hash []byte) (principal, error) {
	var t store.Token
	err := d.store.View(ctx, func(tx store.Reader) error {
		var err error
		t, err = tx.TokenByHash(ctx, hash)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return principal{}, errUnauthenticated
	case err != nil:
		return principal{}, fmt.Errorf("looking up a token: %w", err)
	case subtle.ConstantTimeCompare(hash, t.Hash) != 1, !t.RevokedAt.IsZero(), !Role(t.Role).known():
		return principal{}, errUnauthenticated
	}
	d.touch(ctx, t)
	return principal{t.Name, Role(t.Role)}, nil
}

// touch notes that a token was used, at most once in touchEvery. A note that
// cannot be written is only logged: the call does not depend on it.
func (d *door) touch(ctx context.Context, t store.Token) {
	now := d.now().UTC().Truncate(time.Microsecond)
	d.mu.Lock()
	last := d.touched[t.ID]
	if t.LastUsed.After(last) {
		last = t.LastUsed
	}
	due := now.Sub(last) >= touchEvery
	if due {
		d.touched[t.ID] = now
	}
	d.mu.Unlock()
	if !due {
		return
	}
	err := d.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return tx.TouchToken(ctx, t.ID, now) })
	if err != nil {
		d.logger.Warn("use of a token not noted", slog.String("token", t.ID), slog.String("error", err.Error()))
	}
}
