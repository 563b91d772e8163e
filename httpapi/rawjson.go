package httpapi

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
)

// rawJSON is JSON that we wrote earlier and pass on as it is.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return jsontext.Value(r), nil
}

// IsZero leaves it out where there is none.
func (r rawJSON) IsZero() bool { return len(r) == 0 }

// Schema says that it may be anything.
func (rawJSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }
