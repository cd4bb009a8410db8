package balance

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
)

// startSuccessor runs this program again, from its present file on disk, to
// take over.
func (p *process) startSuccessor() {
	if os.Getpid() == 1 {
		p.log.Error("no newer process is started: a container ends with its first process; replace the pod")
		return
	}
	cmd := exec.Command(os.Args[0], successorArgs(os.Args[1:])...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := p.succeedBy(cmd.Start, func() int { return cmd.Process.Pid }, cmd.Wait); err != nil {
		p.log.Error("no newer process is started; this one goes on", keyError, err.Error())
	}
}

// successorArgs are the arguments of a process that takes over from one with
// args.
func successorArgs(args []string) []string {
	if slices.Contains(args, "--upgrade") {
		return args
	}
	return append(slices.Clone(args), "--upgrade")
}

// succeedBy starts a newer process unless there is one already. The newer one
// tells systemd itself that it is the main process, once it serves.
func (p *process) succeedBy(start func() error, pid func() int, wait func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child != 0 {
		return fmt.Errorf("one is at work already, with pid %d; wait for its end, or end it", p.child)
	}
	if err := p.mayOffer(p.closing); err != nil {
		return err
	}
	if err := start(); err != nil {
		return err
	}
	p.child = pid()
	p.log.Info("started a newer process", "pid", p.child)
	go func() {
		err := wait()
		p.mu.Lock()
		p.child = 0
		p.mu.Unlock()
		if err != nil {
			p.log.Warn("the newer process ended", keyError, err.Error())
		}
	}()
	return nil
}

// notify tells systemd, when it asked to be told (sd_notify(3)).
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		return
	}
	_, err = conn.Write([]byte(state))
	_ = errors.Join(err, conn.Close())
}
