// Command testsum reads the events of `go test -json` and prints what a person
// wants to see: one line per package, and everything a failed test wrote.
//
// Invariant: its exit code is not 0 if anything failed, if anything was
// skipped (a skipped test proves nothing), or if the stream ends early. A test
// with subtests counts through them and, when it failed on its own, for itself.
// A crash here costs a run's report, never a false success.
//
//	go test -json ./... | testsum [-counts FILE]
//
// FILE gets one line "PASSED FAILED" appended.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	counts := flag.String("counts", "", "file to append \"PASSED FAILED\" to")
	flag.Parse()
	sum := newSummary(os.Stdout)
	err := sum.read(os.Stdin)
	passed, failed := sum.finish()
	if err != nil {
		failed++
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if *counts != "" {
		if err := appendCounts(*counts, passed, failed); err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			os.Exit(1)
		}
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func appendCounts(path string, passed, failed int) (err error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closing := file.Close(); err == nil {
			err = closing
		}
	}()
	_, err = fmt.Fprintln(file, passed, failed)
	return err
}
