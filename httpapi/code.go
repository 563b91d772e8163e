package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Code is the stable name of a problem.
type Code string

// The codes. Clients may rely on them; a code is never reused for something else.
const (
	CodeInvalid          Code = "invalid_request"
	CodeMalformed        Code = "malformed_body"
	CodeUnknownParameter Code = "unknown_parameter"
	CodeKeyMalformed     Code = "key_malformed"
	CodeUnauthenticated  Code = "unauthenticated"
	CodeForbidden        Code = "forbidden"
	CodeForeignOrigin    Code = "foreign_origin"
	CodeNotFound         Code = "not_found"
	CodeMethodNotAllowed Code = "method_not_allowed"
	CodePaymentConflict  Code = "payment_conflict"
	CodeNotRedrivable    Code = "not_redrivable"
	CodeAlreadyRunning   Code = "already_running"
	CodeNotRetryable     Code = "not_retryable"
	CodeTokenExists      Code = "token_exists"
	CodeKeyInProgress    Code = "key_in_progress"
	CodeKeyExpired       Code = "key_expired"
	CodeTooLarge         Code = "too_large"
	CodeUnsupportedMedia Code = "unsupported_media_type"
	CodeForeignHost      Code = "foreign_host"
	CodeKeyReused        Code = "key_reused"
	CodeInternal         Code = "internal"
	CodeUnavailable      Code = "unavailable"
	CodeOverloaded       Code = "overloaded"
	CodeResultUnknown    Code = "result_unknown"
)

// problemPath is where the page of each code is served; a problem's type is a
// reference to it, so that it holds under whatever host the API is reached.
const problemPath = "/problems/"

const (
	problemContentType = "application/problem+json"
	jsonContentType    = "application/json"
	requestIDHeader    = "X-Request-Id"
)

// meaning is what a code says to everybody alike.
type meaning struct {
	status    int
	title     string
	retryable bool
	// explain and todo make the page of the code.
	explain, todo string
}

// meanings is the one table from code to status.
var meanings = map[Code]meaning{
	CodeInvalid: {http.StatusBadRequest, "The request does not fit", false,
		"A member or parameter is missing, has the wrong type, or is out of bounds. `errors` names each by its pointer; values are never repeated.",
		"Mend what `errors` names and send the request again, under the same `Idempotency-Key` if you like: a refused request leaves no answer behind."},
	CodeMalformed: {http.StatusBadRequest, "The body cannot be read", false,
		"The body is not one JSON value in valid UTF-8 without repeated member names, or it is missing.",
		"Send one JSON object. Two members of one name are refused because two programs could read them differently."},
	CodeUnknownParameter: {http.StatusBadRequest, "A query parameter is unknown", false,
		"The call does not know the parameter, or the filter does not exist. It is not ignored, because a list without the filter would answer another question.",
		"Look the call up in the OpenAPI document at `/openapi.json`."},
	CodeKeyMalformed: {http.StatusBadRequest, "The Idempotency-Key is malformed", false,
		"The header must hold one key of 1 to 255 visible ASCII characters, quoted or bare.",
		"Use a UUID, or an identifier of your own that names the attempt."},
	CodeUnauthenticated: {http.StatusUnauthorized, "A valid token is needed", false,
		"There was no `Authorization: Bearer` header, or its token is unknown or revoked. There is no access without a token, on loopback neither.",
		"Send a token. The first start of a server without tokens writes an admin token to a file that only its owner can read."},
	CodeForbidden: {http.StatusForbidden, "The token's role is too low", false,
		"The token is valid and its role does not allow the call. `detail` names the role that is needed.",
		"Use a token with that role. Roles are `read`, `operate`, `approve` and `admin`, each with the rights of those before it."},
	CodeForeignOrigin: {http.StatusForbidden, "The request comes from a foreign page", false,
		"A browser sent the request on behalf of a page of another origin.",
		"Call the API from a server, or from a page that it serves itself."},
	CodeNotFound: {http.StatusNotFound, "There is nothing under this name", false,
		"The path, or the object that it names, does not exist.",
		"Check the id, and for orders the `shop`. `GET /v1/search?q=` finds objects by any of their ids."},
	CodeMethodNotAllowed: {http.StatusMethodNotAllowed, "The path does not take this method", false,
		"The path exists; the method does not. The `Allow` header names those that do.",
		"Use one of them."},
	CodePaymentConflict: {http.StatusConflict, "The payment is registered with other content", false,
		"The order or a reference is registered already, and the fields in `errors` differ from that registration. Nothing was changed. `payment` is the id of the earlier record where there is one.",
		"Read the payment. If it is another payment, give it references of its own."},
	CodeNotRedrivable: {http.StatusConflict, "The event is not in the dead letters", false,
		"Only a dead event can be redriven; this one was processed.",
		"Nothing is to be done. Its result stands in the event."},
	CodeAlreadyRunning: {http.StatusConflict, "The event is being worked on", false,
		"The event is queued or in work already, perhaps because of an earlier redrive.",
		"Wait for its result."},
	CodeNotRetryable: {http.StatusConflict, "The message is not stopped", false,
		"Only a dead or ambiguous message can be sent again; this one is delivered or still being tried.",
		"Nothing is to be done. Its next attempt stands in the message."},
	CodeTokenExists: {http.StatusConflict, "There is a token of this name", false,
		"A token's name is the actor in the audit, so that two valid tokens never share one.",
		"Choose another name, or revoke the other token first."},
	CodeKeyInProgress: {http.StatusConflict, "The first request with this key is in progress", true,
		"Another request with the same `Idempotency-Key` has not been answered yet.",
		"Send the request again, unchanged, after the pause in `Retry-After`."},
	CodeKeyExpired: {http.StatusGone, "The key has expired", false,
		"The answer to this `Idempotency-Key` is no longer kept. The request was not run again.",
		"Read what it would have created, and only then use a new key."},
	CodeTooLarge: {http.StatusRequestEntityTooLarge, "The body is too large", false,
		"A body of this API is at most 64 KiB.",
		"Send less."},
	CodeUnsupportedMedia: {http.StatusUnsupportedMediaType, "The body is not JSON", false,
		"The `Content-Type` is not `application/json`.",
		"Send JSON."},
	CodeForeignHost: {http.StatusMisdirectedRequest, "The host is not ours", false,
		"The `Host` header names neither loopback, nor the listening address, nor a configured host. This keeps pages that point a name of theirs at this server out.",
		"Add the name to `listen.hosts` in the configuration."},
	CodeKeyReused: {http.StatusUnprocessableEntity, "The key was used for another request", false,
		"The `Idempotency-Key` belongs to a request with another method, path or content.",
		"Use a new key for a new request. To repeat one, send exactly what was sent."},
	CodeInternal: {http.StatusInternalServerError, "Something is wrong on our side", true,
		"An error that should not happen. It stands in the log under the `request_id`.",
		"Send the request again: every call may be repeated. Give the `request_id` to whoever runs the server."},
	CodeUnavailable: {http.StatusServiceUnavailable, "The ledger cannot be reached", true,
		"The database is out of reach, busy or full, or the server is about to stop. Nothing is known to have changed.",
		"Send the request again after the pause in `Retry-After`."},
	CodeOverloaded: {http.StatusServiceUnavailable, "Too many requests at once", true,
		"The server works on as many requests as it may.",
		"Send the request again after the pause in `Retry-After`."},
	CodeResultUnknown: {http.StatusServiceUnavailable, "It is not known whether the change was stored", true,
		"The connection to the database was lost while a change was being committed.",
		"Send the request again, unchanged: if it was stored the first time, it is not done twice."},
}

// Codes returns every code, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(meanings)) }

// Page returns the documentation of a code as Markdown.
func (c Code) Page() (string, bool) {
	m, ok := meanings[c]
	if !ok {
		return "", false
	}
	retry := "Sending the same request again does not help."
	if m.retryable {
		retry = "Sending the same request again may succeed."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n`%s` · status %d · `retryable: %t`\n\n", m.title, c, m.status, m.retryable)
	fmt.Fprintf(&b, "%s\n\n## What to do\n\n%s\n\n%s\n", m.explain, m.todo, retry)
	return b.String(), true
}
