// Command openapi prints the OpenAPI document of the private API.
//
// It stands outside the flow: `make generate` writes its output to
// docs/openapi.json, and `make verify` fails when the two differ. Invariant: the
// document is the one that the server serves. A crash here costs nothing.
package main

import (
	"fmt"
	"os"

	"github.com/unavez/unavez/httpapi"
)

func main() {
	document, err := httpapi.Document()
	if err == nil {
		_, err = os.Stdout.Write(document)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}
