// Command pod is what runs in the pods of the lab and, as process 1, on its
// Kubernetes nodes: a static program of the standard library alone, so that an
// image of it is a few megabytes.
//
//	pod pause           wait for a signal
//	pod serve -port N   answer HTTP with what the environment says of the pod
//	pod init ...        hold the namespaces of a node, see init.go
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pod:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		args = []string{"pause"}
	}
	switch args[0] {
	case "pause":
		return pause()
	case "serve":
		return serve(args[1:])
	case "init":
		if err := isolate(args[1:]); err != nil {
			return err
		}
		return pause()
	}
	return errors.New("unknown mode " + args[0] + ": use pause, serve or init")
}

// pause takes in children that others have left, as process 1 must, until it is
// told to end.
func pause() error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	for s := range signals {
		if s != syscall.SIGCHLD {
			break
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 && err != syscall.EINTR {
				break
			}
		}
	}
	return nil
}
