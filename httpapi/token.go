package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/store"
)

const (
	tokenMark        = "uvz_"
	tokenRandomBytes = 32

	tokensSubject      = "tokens"
	actionTokenMade    = "token.created"
	actionTokenRevoked = "token.revoked"
)

var tokenName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)

// TokenDocument is a token of the ledger. Tokens of the configuration are not listed.
type TokenDocument struct {
	ID        string    `json:"id"`
	Name      string    `json:"name" doc:"The actor in the audit"`
	Role      Role      `json:"role" enum:"read,operate,approve,admin"`
	CreatedAt time.Time `json:"created_at"`
	LastUsed  time.Time `json:"last_used_at,omitzero" doc:"To the minute"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	Token     string    `json:"token,omitzero" doc:"Shown once, in the first answer to its creation; kept nowhere"`
}

// TokenBody asks for a token.
type TokenBody struct {
	_    struct{} `additionalProperties:"false"`
	Name string   `json:"name" pattern:"^[a-z0-9][a-z0-9_.-]{0,62}$"`
	Role Role     `json:"role" enum:"read,operate,approve,admin"`
}

func (a *API) registerTokens() {
	handle(a, call{
		id: "list-tokens", method: http.MethodGet, path: "/v1/tokens", tag: "tokens", role: RoleAdmin, summary: "List tokens",
	}, a.listTokens)
	handle(a, call{
		id: "create-token", method: http.MethodPost, path: "/v1/tokens", tag: "tokens", role: RoleAdmin, status: http.StatusCreated,
		summary: "Make a token", body: TokenBody{}, codes: []Code{CodeTokenExists}, redact: withoutToken,
		text: "The token stands in this answer alone: only its SHA-256 is stored, and an answer that is replayed under an Idempotency-Key lacks it.",
	}, a.createToken)
	handle(a, call{
		id: "revoke-token", method: http.MethodPost, path: "/v1/tokens/{id}/revoke", tag: "tokens", role: RoleAdmin, status: http.StatusOK,
		summary: "Revoke a token", body: remarkBody{}, bodyOptional: true, text: "Holds from the next request on. Revoking again changes nothing.",
	}, a.revokeToken)
}

func (a *API) listTokens(ctx context.Context, in *Paging) (*list[TokenDocument], error) {
	rows, err := view(ctx, a.deps.Store, func(tx store.Reader) ([]store.Token, error) { return tx.Tokens(ctx, in.filter()) })
	if err != nil {
		return nil, fmt.Errorf("listing tokens: %w", err)
	}
	return page(rows, in.Limit, tokenDocument), nil
}

type tokenDetail struct {
	Token  string `json:"token"`
	Name   string `json:"name"`
	Role   Role   `json:"role,omitzero"`
	Reason string `json:"reason,omitzero"`
}

func (a *API) createToken(ctx context.Context, _ *struct{}) (*one[TokenDocument], error) {
	b, err := decode[TokenBody](ctx, false)
	switch {
	case err != nil:
		return nil, err
	case !tokenName.MatchString(b.Name):
		return nil, refused("/name", "is not 1 to 63 of a-z, 0-9, _, . and -, beginning with a letter or digit")
	case !b.Role.known():
		return nil, refused("/role", "is not read, operate, approve or admin")
	case reserved(b.Name):
		return nil, refused("/name", "is a name that the audit uses itself")
	}
	for _, t := range a.door.fixed {
		if t.name == b.Name {
			return nil, problem(CodeTokenExists, "a token of the configuration has this name")
		}
	}
	secret, row := mint(b.Name, b.Role, a.deps.NewID(id.Token), a.now())
	err = a.deps.Store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		// The chain is locked first, so that of two requests the second sees the
		// token of the first.
		detail := tokenDetail{Token: row.ID, Name: row.Name, Role: b.Role}
		if err := a.audit(ctx, tx, tokensSubject, actionTokenMade, actorOf(ctx), detail); err != nil {
			return err
		}
		taken, err := nameTaken(ctx, tx, row.Name)
		if err != nil {
			return err
		}
		if taken {
			return problem(CodeTokenExists, "a token that is not revoked has this name")
		}
		return tx.InsertToken(ctx, row)
	})
	if err != nil {
		return nil, fmt.Errorf("making a token: %w", err)
	}
	d := tokenDocument(row)
	d.Token = secret
	return &one[TokenDocument]{Status: http.StatusCreated, Body: d}, nil
}

// reserved says that a name stands for something else in the audit.
func reserved(name string) bool { return name == "system" || name == actorNobody }

func (a *API) revokeToken(ctx context.Context, in *byID) (*one[TokenDocument], error) {
	reason, err := remarkOf(ctx)
	if err != nil {
		return nil, err
	}
	var row store.Token
	err = a.deps.Store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		var err error
		row, err = tokenByID(ctx, tx, in.ID)
		if err != nil || !row.RevokedAt.IsZero() {
			return err
		}
		row.RevokedAt = a.now()
		if err := tx.RevokeToken(ctx, in.ID, row.RevokedAt); err != nil {
			return err
		}
		return a.audit(ctx, tx, tokensSubject, actionTokenRevoked, actorOf(ctx), tokenDetail{Token: row.ID, Name: row.Name, Reason: reason})
	})
	if err != nil {
		return nil, fmt.Errorf("revoking token %s: %w", in.ID, err)
	}
	return &one[TokenDocument]{Status: http.StatusOK, Body: tokenDocument(row)}, nil
}

// mint makes a secret and the row that knows only its hash.
func mint(name string, role Role, tokenID string, now time.Time) (string, store.Token) {
	raw := make([]byte, tokenRandomBytes)
	if _, err := rand.Read(raw); err != nil {
		panic("httpapi: impossible: no randomness: " + err.Error())
	}
	secret := tokenMark + base64.RawURLEncoding.EncodeToString(raw)
	hash := sha256.Sum256([]byte(secret))
	return secret, store.Token{ID: tokenID, Name: name, Role: string(role), Hash: hash[:], CreatedAt: now}
}

// eachToken visits the tokens of the ledger, newest first, until visit says stop.
func eachToken(ctx context.Context, tx store.Reader, visit func(store.Token) (stop bool)) error {
	l := store.List{Where: map[string]string{}, Limit: limitMax}
	for {
		rows, err := tx.Tokens(ctx, l)
		if err != nil {
			return fmt.Errorf("reading tokens: %w", err)
		}
		for _, t := range rows {
			if visit(t) {
				return nil
			}
		}
		if len(rows) < l.Limit {
			return nil
		}
		l.After = rows[len(rows)-1].ID
	}
}

func nameTaken(ctx context.Context, tx store.Reader, name string) (taken bool, err error) {
	err = eachToken(ctx, tx, func(t store.Token) bool {
		taken = taken || t.Name == name && t.RevokedAt.IsZero()
		return taken
	})
	return taken, err
}

func tokenByID(ctx context.Context, tx store.Reader, tokenID string) (found store.Token, err error) {
	err = eachToken(ctx, tx, func(t store.Token) bool {
		if t.ID == tokenID {
			found = t
		}
		return t.ID == tokenID
	})
	if err == nil && found.ID == "" {
		err = fmt.Errorf("token %s: %w", tokenID, store.ErrNotFound)
	}
	return found, err
}

func tokenDocument(t store.Token) TokenDocument {
	return TokenDocument{
		ID: t.ID, Name: t.Name, Role: Role(t.Role), CreatedAt: t.CreatedAt, LastUsed: t.LastUsed, RevokedAt: t.RevokedAt,
	}
}

// withoutToken is the answer as it is kept under an Idempotency-Key.
func withoutToken(body []byte) []byte {
	var d TokenDocument
	if err := json.Unmarshal(body, &d); err != nil {
		panic("httpapi: impossible: an answer of ours does not decode: " + err.Error())
	}
	d.Token = ""
	kept, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		panic("httpapi: impossible: a token does not encode: " + err.Error())
	}
	return kept
}
