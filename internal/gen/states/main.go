// Command states prints docs/states.md: the tables of package payment, computed
// by calling it. It reads nothing and prints the same every time.
package main

import (
	"fmt"
	"os"
)

func main() {
	if _, err := os.Stdout.WriteString(render()); err != nil {
		fmt.Fprintln(os.Stderr, "states: writing:", err)
		os.Exit(1)
	}
}
