package receive

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
)

// Bounds of the headers that are kept with the bytes.
const (
	keptValueBytesMax = 4 << 10
	keptValuesMax     = 8
)

// keptAlways are kept for every provider, beside its signature headers.
var keptAlways = []string{"Content-Type", "User-Agent"}

// keep returns JSON of the headers with the names, so that a delivery can be
// verified again later. Nothing else of the request is stored.
func keep(h http.Header, names []string) []byte {
	kept := make(map[string][]string, len(names))
	for _, name := range names {
		for i, value := range h[name] {
			if i == keptValuesMax {
				break
			}
			kept[name] = append(kept[name], strings.ToValidUTF8(value[:min(len(value), keptValueBytesMax)], "\uFFFD"))
		}
	}
	encoded, err := json.Marshal(kept, json.Deterministic(true))
	if err != nil {
		panic("receive: impossible: headers do not encode: " + err.Error())
	}
	return encoded
}
