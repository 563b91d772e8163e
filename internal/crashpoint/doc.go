// Package crashpoint names the places where a test may end or freeze this very
// process, so that "a crash between A and B" is tried and not only argued.
//
// Place in the flow: called by the stages and the backends at the borders of
// durability. Without the build tag crashpoint, Hit is empty and the compiler
// removes it; a released program holds no way to be told to die.
//
// With the tag, the environment names one place, and optionally which passage
// of it:
//
//	UNAVEZ_CRASHPOINT=receive.verified:3    at the third passage (the first if not said)
//	UNAVEZ_CRASHPOINT_ACTION=kill           SIGKILL to itself (default), or
//	UNAVEZ_CRASHPOINT_ACTION=stop           SIGSTOP to itself, until somebody sends SIGCONT
//
// Invariant: the process is gone, or stands still, before Hit returns. A crash
// here is the purpose.
package crashpoint

// The environment variables.
const (
	Variable       = "UNAVEZ_CRASHPOINT"
	ActionVariable = "UNAVEZ_CRASHPOINT_ACTION"
)
