package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/store"
)

const (
	adminName     = "admin"
	adminFileMode = 0o600
	adminPending  = ".pending-"
	adminBytesMax = 1 << 10
	actorFirst    = "system"
	adminFilesMax = 100
)

// EnsureAdminToken lets the first start be entered: if neither the
// configuration nor the ledger has a valid token, it makes an admin token and
// writes it to the file, readable by its owner alone. It says whether it did.
//
// The file is written beside its place before the token becomes valid and moved
// there after. A crash between the two is mended by the next start. Of several
// processes at once one makes the token; the others write nothing.
func EnsureAdminToken(ctx context.Context, s store.Store, path string, configured []Token, now time.Time) (bool, error) {
	if len(configured) > 0 {
		return false, nil
	}
	now = now.UTC().Truncate(time.Microsecond)
	if mended, err := mendAdminFile(ctx, s, path); err != nil || mended {
		return mended, err
	}
	none, err := view(ctx, s, func(tx store.Reader) (bool, error) { return noToken(ctx, tx) })
	if err != nil || !none {
		return false, err
	}
	secret, row := mint(adminName, RoleAdmin, id.New(id.Token, now), now)
	pending := path + adminPending + rand.Text()
	if err := writeSecret(pending, secret); err != nil {
		return false, fmt.Errorf("writing the admin token: %w", err)
	}
	made, err := insertAdmin(ctx, s, row)
	switch {
	case errors.Is(err, store.ErrCommitUnknown):
		// The file stays: the next start knows whether its token is valid.
		return false, fmt.Errorf("making the admin token: %w", err)
	case err != nil || !made:
		return false, errors.Join(err, os.Remove(pending))
	}
	// Another process that starts now may have put it in place already.
	if err := os.Rename(pending, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("putting the admin token in place: %w", err)
	}
	return true, nil
}

func insertAdmin(ctx context.Context, s store.Store, row store.Token) (made bool, err error) {
	detail, err := json.Marshal(tokenDetail{Token: row.ID, Name: row.Name, Role: RoleAdmin}, json.Deterministic(true))
	if err != nil {
		panic("httpapi: impossible: a detail does not encode: " + err.Error())
	}
	var found bool
	err = s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		// The chain is locked first: of two processes the second sees the token.
		err := tx.AppendAudit(ctx, []store.AuditRow{{
			ID: id.New(auditPrefix, row.CreatedAt), Subject: tokensSubject, Action: actionTokenMade, Actor: actorFirst,
			Detail: detail, At: row.CreatedAt,
		}})
		if err != nil {
			return err
		}
		none, err := noToken(ctx, tx)
		found = !none
		switch {
		case err != nil:
			return err
		case found:
			return errTokenThere
		}
		return tx.InsertToken(ctx, row)
	})
	if found && errors.Is(err, errTokenThere) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("making the admin token: %w", err)
	}
	return true, nil
}

var errTokenThere = errors.New("httpapi: another process made a token")

func noToken(ctx context.Context, tx store.Reader) (bool, error) {
	none := true
	err := eachToken(ctx, tx, func(t store.Token) bool {
		none = none && !t.RevokedAt.IsZero()
		return !none
	})
	return none, err
}

// mendAdminFile puts a file in place whose token became valid right before a
// crash.
func mendAdminFile(ctx context.Context, s store.Store, path string) (bool, error) {
	names, err := filepath.Glob(globEscape(path) + adminPending + "*")
	if err != nil {
		return false, fmt.Errorf("looking for an admin token: %w", err)
	}
	for _, name := range names[:min(len(names), adminFilesMax)] {
		valid, err := validFile(ctx, s, name)
		if err != nil {
			return false, err
		}
		if valid {
			if err := os.Rename(name, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, fmt.Errorf("putting the admin token in place: %w", err)
			}
			return true, nil
		}
	}
	return false, nil
}

// globEscape keeps a path from being read as a pattern.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func validFile(ctx context.Context, s store.Store, name string) (bool, error) {
	raw, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", name, err)
	case len(raw) > adminBytesMax:
		return false, nil
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(string(raw))))
	t, err := view(ctx, s, func(tx store.Reader) (store.Token, error) { return tx.TokenByHash(ctx, hash[:]) })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking up the token of %s: %w", name, err)
	}
	return t.RevokedAt.IsZero() && subtle.ConstantTimeCompare(t.Hash, hash[:]) == 1, nil
}

// writeSecret writes a new file that only its owner can read, and waits until
// it is on the disk.
func writeSecret(name, secret string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, adminFileMode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}
