package cli

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/unavez/unavez/store"
)

// The exit codes; stable.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitForbidden = 4
	exitConflict  = 5
	exitPartly    = 6
	exitUnknown   = 7
)

// exitHelp is the text of unavez help exit-codes.
const exitHelp = `Exit codes:
  0  ok
  1  failed
  2  usage: unknown command, flag or value
  3  not found
  4  not permitted: no token, or its role is too low
  5  conflict: it exists with other content, or its state does not allow it
  6  done in part
  7  result unknown, or differences found
`

// exitError carries an exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// exitWord is the code of a problem that arose here and not at the API.
func exitWord(code int) string {
	word := map[int]string{
		exitUsage: "usage", exitNotFound: "not_found", exitForbidden: "forbidden", exitConflict: "conflict",
		exitPartly: "partly", exitUnknown: "unknown",
	}[code]
	if word == "" {
		return "failed"
	}
	return word
}

// exitCode is the one table from errors to exit codes.
func exitCode(err error) int {
	var coded *exitError
	var problem *problemError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &problem):
		return exitOfStatus(problem.Status)
	case errors.Is(err, store.ErrNotFound):
		return exitNotFound
	}
	return exitFailed
}

func exitOfStatus(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return exitUsage
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitForbidden
	case http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed:
		return exitConflict
	case http.StatusAccepted:
		return exitUnknown
	}
	return exitFailed
}
