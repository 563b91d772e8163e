//go:build !crashpoint

package crashpoint

import "context"

// Enabled says whether this program was built to crash.
const Enabled = false

// Hit marks the place with the name. Names are stage and moment,
// "inbox.inserted_before_commit".
func Hit(string) {}

// AtCommit names the place that a backend marks when it has sent the COMMIT of
// a transaction begun with the context, and nobody has seen the answer.
func AtCommit(ctx context.Context, _ string) context.Context { return ctx }

// CommitOf is the name given to AtCommit, empty if none.
func CommitOf(context.Context) string { return "" }
