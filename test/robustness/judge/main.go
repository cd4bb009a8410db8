// Command judge says whether what the clients of a pair were told can have
// happened in one etcd.
//
//	judge [--writes N] DIR
//
// DIR is a report in the form of etcd's robustness tests: client-N/{operations,watch}.json and, one
// per directory that a member ever had, server-NAME/. It prints one JSON
// document and ends with 0 for a legal run, 1 for any other, 2 if it could not tell.
//
// A run is legal if it did enough (--writes acknowledged writes and some of every
// other request), if every acknowledged put stands in the members' logs at the
// revision that was acknowledged, and if etcd's validation finds the history linearizable
// and the watches and reads of the past right.
//
// etcd's search for an order of all requests takes for ever with two dozen clients, so it is
// first shown the order that the logs suggest; see witness.go.
//
// It is a program of its own so that it runs without the race detector that the tests
// around it have: that makes it ten times slower.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("judge", flag.ContinueOnError)
	flags.SetOutput(errs)
	writes := flags.Int("writes", 0, "how many acknowledged writes a run must have")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(errs, "judge: name one directory with a report")
		return 2
	}
	h, err := load(flags.Arg(0))
	if err != nil {
		fmt.Fprintln(errs, "judge:", err)
		return 2
	}
	v := h.judge(*writes)
	if err := json.NewEncoder(out).Encode(v); err != nil {
		fmt.Fprintln(errs, "judge:", err)
		return 2
	}
	if v.Broken != "" {
		return 1
	}
	return 0
}
