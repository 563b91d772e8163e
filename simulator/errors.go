package simulator

import (
	"errors"
	"net/http"
)

// The errors of in-process control calls.
var (
	// ErrNotFound: the object or instruction named by a control call does not exist.
	ErrNotFound = errors.New("simulator: not found")
	// ErrInvalid: a control call asks for something that does not exist or does
	// not fit the object's state.
	ErrInvalid = errors.New("simulator: invalid instruction")
	// ErrFull: a bound of the Config is reached; nothing was done.
	ErrFull = errors.New("simulator: full")
	// ErrRunning: Start was called while the workers run.
	ErrRunning = errors.New("simulator: already started")
)

// apiError is an error in the provider's own shape.
type apiError struct {
	status      int
	typ         string
	code        string
	message     string
	param       string
	declineCode string
	charge      string
	intent      object
	// early: execution had not begun, so that no idempotency key keeps it.
	early bool
}

const (
	typeInvalid     = "invalid_request_error"
	typeIdempotency = "idempotency_error"
	typeCard        = "card_error"
	typeAPI         = "api_error"

	codeAlreadyCaptured = "charge_already_captured"
	codeAlreadyRefunded = "charge_already_refunded"
	codeUnexpectedState = "payment_intent_unexpected_state"
	codeKeyInUse        = "idempotency_key_in_use"
	codeNoDecimal       = "invalid_charge_amount_no_decimal_compatible"
)

func (e *apiError) body() object {
	in := object{"type": e.typ, "message": e.message}
	for name, value := range map[string]string{
		"code": e.code, "param": e.param, "decline_code": e.declineCode, "charge": e.charge,
	} {
		if value != "" {
			in[name] = value
		}
	}
	if e.intent != nil {
		in["payment_intent"] = e.intent
	}
	return object{"error": in}
}

// badParam is a failed validation of a parameter; no key keeps it.
func badParam(param, code, message string) *apiError {
	return &apiError{status: http.StatusBadRequest, typ: typeInvalid, code: code, param: param, message: message, early: true}
}

// refused is a refusal by the state of things; a key keeps it.
func refused(code, message string) *apiError {
	return &apiError{status: http.StatusBadRequest, typ: typeInvalid, code: code, message: message}
}

func missing(noun, id string) *apiError {
	return &apiError{
		status: http.StatusNotFound, typ: typeInvalid, code: "resource_missing",
		param: "id", message: "No such " + noun + ": '" + id + "'",
	}
}

func tooMany(code, message string) *apiError {
	return &apiError{status: http.StatusTooManyRequests, typ: typeInvalid, code: code, message: message, early: true}
}

func serverError() *apiError {
	return &apiError{status: http.StatusInternalServerError, typ: typeAPI, message: "An unknown error occurred"}
}
