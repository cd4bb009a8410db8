package relay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// exhausted names the variable that makes the test binary a relay to the
// target of its value; its descriptors are limited, and run out on demand.
const exhausted = "HOLDFAST_TEST_RELAY_EXHAUSTED"

func TestMain(m *testing.M) {
	if to := os.Getenv(exhausted); to != "" {
		if err := relayExhausted(to); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// relayExhausted prints its address, and answers each line of its input: "use"
// takes every descriptor that is left, "free" gives them back, "limited" prints
// how often accepting stopped.
func relayExhausted(to string) error {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 300, Max: 300}); err != nil {
		return err
	}
	e, err := New(Options{})
	if err != nil {
		return err
	}
	file, err := Listen("127.0.0.1:0", false)
	if err != nil {
		return err
	}
	up, err := NewTarget("up", "tcp", to, 0)
	if err != nil {
		return err
	}
	ln, err := e.Serve(Frontend{Picker: pickFunc(oneOf(up))}, file)
	if err != nil {
		return err
	}
	go func() { _ = e.Run(context.Background()) }()
	var a sockaddr
	sysSockName(ln.fd, &a)
	fmt.Println(a.addrPort())
	var taken []int
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "use":
			for {
				fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 0)
				if err != nil {
					break
				}
				taken = append(taken, fd)
			}
		case "free":
			for _, fd := range taken {
				sysClose(fd)
			}
			taken = nil
		}
		fmt.Println(ln.Stats().Events[AcceptLimited])
	}
	return nil
}

// TestDescriptorsRunOut wants clients to wait meanwhile, no busy loop, and
// service afterwards.
func TestDescriptorsRunOut(t *testing.T) {
	up := backend(t, echo)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), exhausted+"="+up.Address)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = child.Wait() }()
	lines := bufio.NewScanner(out)
	hear := func() string {
		if !lines.Scan() {
			t.Fatal("the relay has ended")
		}
		return lines.Text()
	}
	say := func(what string) int {
		_, _ = io.WriteString(in, what+"\n")
		n, err := strconv.Atoi(strings.TrimSpace(hear()))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	r := &rig{t: t, address: hear()}
	before := r.dial()
	exchange(t, before, "before")
	say("use")
	waiting := r.dial()
	await(t, "accepting to stop", func() bool { return say("limited") > 0 })
	exchange(t, before, "goes on")
	if n := say("limited"); n > 1000 {
		t.Errorf("accept was tried %d times", n)
	}
	say("free")
	exchange(t, waiting, "after")
}

func oneOf(up *Target) func(_ netip.AddrPort, tried []*Target) (*Target, Answer) {
	return func(_ netip.AddrPort, tried []*Target) (*Target, Answer) {
		if len(tried) > 0 {
			return nil, None
		}
		return up, Use
	}
}

// TestCapacityIsShared stops at the number of sessions that descriptors
// suffice for, whatever the listener.
func TestCapacityIsShared(t *testing.T) {
	picker := &order{targets: []*Target{backend(t, echo)}}
	r := newRig(t, Frontend{Picker: picker}, Options{})
	_, other := r.serve("127.0.0.1:0", Frontend{Picker: picker})
	r.engine.capacity.Store(2)
	a, b := r.dial(), r.dial()
	exchange(t, a, "a")
	exchange(t, b, "b")
	c, err := net.Dial("tcp", other)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r.await(AcceptLimited, 1)
	a.Close()
	exchange(t, c, "c")
}
