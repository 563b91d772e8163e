package httpapi

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/payment"
)

// decode reads the body of a call: one JSON object without unknown or repeated
// members. An optional body may be missing.
func decode[T any](ctx context.Context, optional bool) (T, error) {
	var v T
	body := infoOf(ctx).body
	if len(body) == 0 {
		if optional {
			return v, nil
		}
		return v, problem(CodeMalformed, "the body is missing")
	}
	if jsontext.Value(body).Kind() != '{' {
		return v, problem(CodeMalformed, "the body is not a JSON object")
	}
	if err := json.Unmarshal(body, &v, json.RejectUnknownMembers(true)); err != nil {
		return v, bodyProblem(err)
	}
	return v, nil
}

// nothing refuses a body that says anything: no body and an empty object are fine.
func nothing(ctx context.Context) error {
	members, err := decode[map[string]jsontext.Value](ctx, true)
	if err != nil {
		return err
	}
	for name := range members {
		return refused(plainPointer("/"+name), "is not a member of this call")
	}
	return nil
}

// bodyProblem says where the body does not fit, without repeating any of it.
func bodyProblem(err error) *Problem {
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		detail := "is not valid JSON"
		if errors.Is(syntax.Err, jsontext.ErrDuplicateName) {
			detail = "stands twice"
		}
		pointer := plainPointer(string(syntax.JSONPointer))
		return problem(CodeMalformed, "the body "+detail+" at "+nameOf(pointer), ProblemField{pointer, detail})
	case errors.As(err, &meaning):
		return memberProblem(plainPointer(string(meaning.JSONPointer)), err)
	}
	return problem(CodeMalformed, "the body cannot be read")
}

func memberProblem(pointer string, err error) *Problem {
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return refused(pointer, "is not a member of this call")
	case errors.Is(err, payment.ErrRange):
		return refused(pointer, "is negative or above 9223372036854775807")
	case errors.Is(err, payment.ErrNumber):
		return refused(pointer, `is not {"value": whole number of minor units, "currency": code}`)
	case errors.Is(err, payment.ErrCurrency):
		return refused(pointer, "has an unknown currency")
	}
	return refused(pointer, "has the wrong type")
}

func nameOf(pointer string) string {
	if pointer == "" {
		return "its beginning"
	}
	return pointer
}

var plainSegment = regexp.MustCompile(`^([a-z][a-z0-9_]{0,39}|\d{1,3})$`)

// plainPointer cuts a pointer before the first segment that does not look like
// a member of ours: a member's name may be anything that somebody typed.
func plainPointer(pointer string) string {
	var kept string
	for _, segment := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if !plainSegment.MatchString(segment) {
			break
		}
		kept += "/" + segment
	}
	return kept
}

// reasonBody is the body of what a person does to something.
type reasonBody struct {
	_      struct{} `additionalProperties:"false"`
	Reason string   `json:"reason" doc:"Why; kept in the audit" minLength:"1" maxLength:"1000"`
}

// remarkBody is the body of what needs no reason: it may be missing.
type remarkBody struct {
	_      struct{} `additionalProperties:"false"`
	Reason string   `json:"reason,omitzero" doc:"Why; kept in the audit" maxLength:"1000"`
}

// reasonOf reads the reason of a person's action that needs one.
func reasonOf(ctx context.Context) (string, error) {
	b, err := decode[reasonBody](ctx, false)
	switch {
	case err != nil:
		return "", err
	case strings.TrimSpace(b.Reason) == "":
		return "", refused("/reason", "is missing")
	}
	return bounded(b.Reason)
}

// remarkOf reads the reason of an action that needs none.
func remarkOf(ctx context.Context) (string, error) {
	b, err := decode[remarkBody](ctx, true)
	if err != nil {
		return "", err
	}
	return bounded(b.Reason)
}

func bounded(reason string) (string, error) {
	if utf8.RuneCountInString(reason) > reasonRunesMax {
		return "", refused("/reason", "is longer than 1000 characters")
	}
	return reason, nil
}
