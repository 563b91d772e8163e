package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// Bounds of the texts that providers choose, in bytes.
const (
	nameBytesMax = 255
	typeBytesMax = 128
	flawBytesMax = 1 << 10
)

// Prefixes of identities that are made here.
const (
	// digestPrefix stands before the digest of bytes in which no identity can
	// be found.
	digestPrefix = "digest:"
	// hashedPrefix stands before the digest of a name that is no printable
	// ASCII, too long, or could be taken for one that is made here.
	hashedPrefix = "hashed:"
	// variantMark separates an identity from the digest of a variant's facts.
	variantMark = "#"
)

// Evidence is one authenticated payload and what its adapter read from it.
type Evidence struct {
	// ID is the entry's id, minted by the caller.
	ID         string
	Account    *provider.Account
	Source     store.Source
	ReceivedAt time.Time
	Trace      string
	Payload    []byte
	// Header is JSON of the headers that are kept.
	Header []byte
	// Hint says that the payload is unsigned by the provider's contract.
	Hint  bool
	Event provider.Event
	// ParseError is what Parse returned; not nil makes the entry malformed.
	ParseError error
}

// Draft is an entry on its way into the inbox.
type Draft struct {
	store.EntryWithBody
	// Provider labels metrics.
	Provider string
	// Lane is where the work is queued.
	Lane string
	// Flaw says why a malformed entry cannot be understood.
	Flaw string
}

// NewDraft makes the draft of a piece of evidence. Every text in it is valid,
// free of NUL and bounded, whatever the provider sent; the bytes are untouched.
func NewDraft(e Evidence) Draft {
	body := sha256.Sum256(e.Payload)
	ev := e.Event
	if e.Hint {
		ev.Evidence = payment.Evidence{}
	}
	entry := store.Entry{
		ID: e.ID,
		Scope: store.Scope{
			Account: e.Account.Name, Mode: mode(ev.Mode, e.Account.Mode), Connected: name(ev.Connected),
		},
		Identity: identity(ev.Identity, body[:]), Type: text(ev.Type, typeBytesMax), Source: e.Source,
		ReceivedAt: e.ReceivedAt.UTC().Truncate(time.Microsecond), OccurredAt: instant(ev.OccurredAt),
		BodyDigest: body[:], Trace: e.Trace, Malformed: e.ParseError != nil,
	}
	entry.ProviderEventID = text(ev.ProviderEventID, nameBytesMax)
	if entry.ProviderEventID == "" {
		entry.ProviderEventID = entry.Identity
	}
	d := Draft{Provider: e.Account.Provider, Lane: lane(entry, ev.Lane)}
	if entry.Malformed {
		entry.FactDigest = malformedDigest(body[:])
		d.Flaw = text(e.ParseError.Error(), flawBytesMax)
	} else {
		entry.FactDigest = FactDigest(ev.Evidence)
	}
	d.EntryWithBody = store.EntryWithBody{Entry: entry, Body: store.Body{Bytes: e.Payload, Header: e.Header}}
	return d
}

func mode(event, account provider.Mode) string {
	if event == provider.Live || event == provider.Test {
		return string(event)
	}
	return string(account)
}

func identity(raw string, bodyDigest []byte) string {
	if raw == "" {
		return digestPrefix + hex.EncodeToString(bodyDigest)
	}
	return name(raw)
}

// lane keeps the work of one payment together, inside its scope.
func lane(e store.Entry, wanted string) string {
	if wanted == "" {
		wanted = e.Identity
	}
	return strings.Join([]string{e.Scope.Account, e.Scope.Mode, e.Scope.Connected, name(wanted)}, "/")
}

func variantIdentity(of string, factDigest []byte) string {
	return of + variantMark + hex.EncodeToString(factDigest)
}

// name returns a name as it is when it is printable ASCII, bounded and not of
// the kinds that are made here, else its digest: equal names stay equal and
// different ones different.
func name(s string) string {
	plain := len(s) <= nameBytesMax && !strings.HasPrefix(s, digestPrefix) && !strings.HasPrefix(s, hashedPrefix) &&
		!strings.Contains(s, variantMark)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] > ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return hashedPrefix + hex.EncodeToString(sum[:])
}

// text makes a text fit for every store.
func text(s string, bytesMax int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= bytesMax {
		return s
	}
	cut := bytesMax
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// instant drops what no calendar can print.
func instant(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
