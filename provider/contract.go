package provider

import "time"

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
	TolerancePast   time.Duration `json:"tolerance_past,format:units"`
	ToleranceFuture time.Duration `json:"tolerance_future,format:units"`
	// AcknowledgeWithin is the budget that we keep for an answer.
	AcknowledgeWithin time.Duration `json:"acknowledge_within,format:units"`
	// Amounts lists the provider's deviations from ISO 4217 exponents.
	Amounts Statement `json:"amounts"`
	// Events maps each known type to what it means to us.
	Events []EventType `json:"events"`
}

// EventType is one event type of a contract.
type EventType struct {
	Type  string `json:"type"`
	Means string `json:"means"`
	Facts string `json:"facts"`
}
