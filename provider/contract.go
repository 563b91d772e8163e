package provider

import (
	"time"

	"github.com/go-json-experiment/json"
)

// Confidence says where a figure of a contract comes from.
type Confidence string

// The sources of a figure, strongest first.
const (
	Documented Confidence = "documented"
	FromSource Confidence = "sdk-source"
	ThirdParty Confidence = "third-party"
	Recalled   Confidence = "recalled"
	Inferred   Confidence = "inferred"
	Uncertain  Confidence = "uncertain"
)

// Statement is one line of a contract, with where and when it was read.
type Statement struct {
	Value      string     `json:"value"`
	Confidence Confidence `json:"confidence"`
	Source     string     `json:"source,omitzero"`
	Read       string     `json:"read,omitzero"` // date, YYYY-MM-DD
}

// Contract is a provider's delivery contract as data that people can read.
// Nothing assumes that providers behave alike: code asks the contract.
type Contract struct {
	Provider string `json:"provider"`
	Title    string `json:"title"`
	// Identity names the fields that identify an event.
	Identity     []string  `json:"identity"`
	IdentityNote Statement `json:"identity_note"`
	Account      Statement `json:"account"`
	Payment      Statement `json:"payment"`
	Signature    Statement `json:"signature"`
	// SignatureHeaders names the request headers that Verify reads; they are
	// kept with the bytes as evidence.
	SignatureHeaders []string  `json:"signature_headers,omitzero"`
	Ordering         Statement `json:"ordering"`
	Retries          Statement `json:"retries"`
	ManualResend     Statement `json:"manual_resend"`
	Acknowledge      Statement `json:"acknowledge"`
	TimeLimit        Statement `json:"time_limit"`
	Batching         Statement `json:"batching"`
	SecondEvents     Statement `json:"second_events"`
	MissedEvents     Statement `json:"missed_events"`
	APIIdempotency   Statement `json:"api_idempotency"`
	// TolerancePast and ToleranceFuture bound the age of a signature; zero where
	// the contract has no time stamp. Judged against the time of receipt.
	TolerancePast   time.Duration `json:"-"`
	ToleranceFuture time.Duration `json:"-"`
	// AcknowledgeWithin is the budget that we keep for an answer.
	AcknowledgeWithin time.Duration `json:"-"`
	// Amounts lists the provider's deviations from ISO 4217 exponents.
	Amounts Statement `json:"amounts"`
	// Details are further lines of the contract that no field above holds.
	Details []Detail `json:"details,omitzero"`
	// Events maps each known type to what it means to us.
	Events []EventType `json:"events"`
}

// MarshalJSON writes the contract with its lengths of time as text, like 5m0s.
func (c Contract) MarshalJSON() ([]byte, error) {
	type fields Contract
	return json.Marshal(struct {
		fields
		TolerancePast     string `json:"tolerance_past"`
		ToleranceFuture   string `json:"tolerance_future"`
		AcknowledgeWithin string `json:"acknowledge_within"`
	}{fields(c), c.TolerancePast.String(), c.ToleranceFuture.String(), c.AcknowledgeWithin.String()})
}

// Detail is a statement under a topic of the provider's own.
type Detail struct {
	Topic string `json:"topic"`
	Statement
}

// EventType is one event type of a contract.
type EventType struct {
	// Type is the provider's name; a trailing * stands for any other ending.
	Type  string `json:"type"`
	Means string `json:"means"`
	Facts string `json:"facts"`
}
