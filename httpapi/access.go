package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/store"
)

// Refusals of access are audited under one subject, at most refusalsMax in each
// refusalsPer: who knocks without a token must not fill the disk. Those beyond
// are counted in the next row, and every one of them is logged.
const (
	accessSubject = "access"
	actionRefused = "access.refused"
	refusalsMax   = 6
	refusalsPer   = time.Minute
	auditWithin   = 5 * time.Second
	actorNobody   = "anonymous"
	auditPrefix   = "aud"
)

type refusals struct {
	mu      sync.Mutex
	begun   time.Time
	written int
	dropped int
}

// admit says whether a refusal is written, and how many before it were not.
func (r *refusals) admit(now time.Time) (dropped int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.begun) >= refusalsPer {
		r.begun, r.written = now, 0
	}
	if r.written >= refusalsMax {
		r.dropped++
		return 0, false
	}
	r.written++
	dropped, r.dropped = r.dropped, 0
	return dropped, true
}

type refusalDetail struct {
	Code  Code   `json:"code"`
	Route string `json:"route,omitzero"`
	// Unwritten is the number of refusals before this one that were only logged.
	Unwritten int `json:"unwritten,omitzero"`
}

// refuse answers with a refusal of access, logs it and audits it.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	ctx := r.Context()
	a.log(ctx, slog.LevelWarn, "access refused", slog.String("code", string(p.Code)), slog.String("actor", actorOf(ctx)),
		slog.String("remote", r.RemoteAddr), slog.String("method", r.Method))
	if dropped, ok := a.refusals.admit(a.deps.Now()); ok {
		if err := a.auditRefusal(ctx, p.Code, dropped); err != nil {
			a.log(ctx, slog.LevelWarn, "refusal not audited", slog.String("error", err.Error()))
		}
	}
	a.write(w, r, p)
}

func (a *API) auditRefusal(ctx context.Context, code Code, dropped int) error {
	i := infoOf(ctx)
	actor := i.principal.name
	if actor == "" {
		actor = actorNobody
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditWithin)
	defer cancel()
	return a.deps.Store.InTx(ctx, store.TxOptions{Timeout: auditWithin}, func(tx store.Tx) error {
		return a.audit(ctx, tx, accessSubject, actionRefused, actor, refusalDetail{code, i.route, dropped})
	})
}

// audit appends one row to a subject's chain.
func (a *API) audit(ctx context.Context, tx store.Tx, subject, action, actor string, detail any) error {
	text, err := json.Marshal(detail, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("httpapi: impossible: a detail does not encode: %v", err))
	}
	err = tx.AppendAudit(ctx, []store.AuditRow{{
		ID: a.deps.NewID(auditPrefix), Subject: subject, Action: action, Actor: actor, Detail: text, At: a.now(),
	}})
	if err != nil {
		return fmt.Errorf("auditing %s: %w", action, err)
	}
	return nil
}

func (a *API) now() time.Time { return a.deps.Now().UTC().Truncate(time.Microsecond) }
