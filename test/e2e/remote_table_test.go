package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// packets is what a test of its own knows of the way between a1 and b1.
type packets struct {
	*hosts
	// old is a connection from a1 to the echo of b1 that is older than the fault.
	old net.Conn
	// family is the address that the hosts are known by.
	six bool
	// heard is what came to the UDP sockets of either node.
	sockets map[string]net.PacketConn
}

const (
	echoes  = 7    // the echo service of a lab's nodes
	overlay = 4789 // VXLAN
	plain   = 9000 // an UDP port of the test's own
)

func newPackets(t *testing.T, h *hosts, six bool) *packets {
	t.Helper()
	p := &packets{hosts: h, six: six, sockets: map[string]net.PacketConn{}}
	old, err := p.dial("a1", "tcp", "b1", echoes)
	if err != nil {
		t.Fatal(err)
	}
	p.old = old
	t.Cleanup(func() { _ = old.Close() })
	if !p.lives() {
		t.Fatal("the echo of b1 does not answer")
	}
	for _, name := range []string{"a1", "b1"} {
		for _, port := range []int{overlay, plain} {
			err := h.node(name).Do(func() error {
				s, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
				if err == nil {
					p.sockets[fmt.Sprint(name, port)] = s
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		for _, s := range p.sockets {
			_ = s.Close()
		}
	})
	return p
}

func (p *packets) addr(name string, port int) string {
	ip := p.node(name).IP()
	if p.six {
		ip = p.node(name).IP6()
	}
	return net.JoinHostPort(ip.String(), fmt.Sprint(port))
}

func (p *packets) dial(from, network, to string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	return p.node(from).DialContext(ctx, network, p.addr(to, port))
}

// opens says how a new connection from a1 to b1 fares: nil, refused, unreachable or
// silent.
func (p *packets) opens(port int) error {
	conn, err := p.dial("a1", "tcp", "b1", port)
	if err == nil {
		return conn.Close()
	}
	return err
}

// lives says whether the old connection still carries data.
func (p *packets) lives() bool {
	_ = p.old.SetDeadline(time.Now().Add(time.Second))
	if _, err := p.old.Write([]byte("0123456789abcdef")); err != nil {
		return false
	}
	_, err := io.ReadFull(p.old, make([]byte, 16))
	return err == nil
}

// arrives says whether one of three datagrams gets from one node to the other.
func (p *packets) arrives(from, to string, port int) bool {
	conn, err := p.dial(from, "udp", to, port)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	mark := fmt.Sprintf("%s %d", p.t.Name(), time.Now().UnixNano())
	socket := p.sockets[fmt.Sprint(to, port)]
	for range 3 {
		_, _ = conn.Write([]byte(mark)) // a cut may say so
		_ = socket.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		buf := make([]byte, 256)
		for {
			n, _, err := socket.ReadFrom(buf)
			if err != nil {
				break
			}
			if bytes.Equal(buf[:n], []byte(mark)) {
				return true
			}
		}
	}
	return false
}

// lost counts how many of 200 datagrams do not arrive.
func (p *packets) lost() int {
	conn, err := p.dial("a1", "udp", "b1", plain)
	if err != nil {
		return 200
	}
	defer func() { _ = conn.Close() }()
	socket := p.sockets[fmt.Sprint("b1", plain)]
	n := 200
	for range 200 {
		_, _ = conn.Write([]byte("x"))
		_ = socket.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, _, err := socket.ReadFrom(make([]byte, 16)); err == nil {
			n--
		}
	}
	return n
}

// takes is how long 256 KiB take from a1 to the echo of b1 and back.
func (p *packets) takes() time.Duration {
	conn, err := p.dial("a1", "tcp", "b1", echoes)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	start := time.Now()
	go func() { _, _ = conn.Write(make([]byte, 256<<10)) }()
	if _, err := io.ReadFull(conn, make([]byte, 256<<10)); err != nil {
		return 0
	}
	return time.Since(start)
}

// silent says that nothing answered at all.
func silent(err error) bool { return errors.Is(err, context.DeadlineExceeded) || isTimeout(err) }

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// state is all of a node that a drill might leave changed.
func (h *hosts) state(name string) string {
	h.t.Helper()
	var b strings.Builder
	b.WriteString(h.rules(name))
	for _, args := range [][]string{{"tc", "qdisc", "show"}, {"tc", "filter", "show"}, {"ip", "addr"}, {"ip", "route"}, {"ip", "-6", "route"}, {"ip", "rule"}} {
		_ = h.node(name).Do(func() error {
			out, err := exec.CommandContext(h.t.Context(), args[0], args[1:]...).CombinedOutput()
			b.Write(out)
			return err
		})
	}
	files, _ := exec.CommandContext(h.t.Context(), "ls", "-A", h.dir).Output()
	b.Write(files)
	left, _ := exec.CommandContext(h.t.Context(), "pgrep", "-af", h.journal(name)).Output()
	b.Write(left)
	return b.String()
}

// TestRemoteFaults injects every fault of packets over sshd, proves by packets of its
// own that it is there and that nothing else is, and that the hosts are as before.
func TestRemoteFaults(t *testing.T) {
	h := newHosts(t)
	for _, tc := range []struct {
		name, fault string
		six         bool
		there       func(p *packets) string
	}{
		{"drop", "cuts: [{from: a, to: b}]", false, func(p *packets) string {
			return wants(silent(p.opens(22)), "new", !p.lives(), "old", !p.arrives("a1", "b1", plain), "udp", !p.arrives("b1", "a1", plain), "udp back")
		}},
		{"six", "cuts: [{from: a, to: b}]", true, func(p *packets) string {
			return wants(silent(p.opens(echoes)), "new", !p.lives(), "old", !p.arrives("a1", "b1", plain), "udp", h.reaches(), "IPv4")
		}},
		{"one-way", "cuts: [{from: a, to: b, oneWay: true}]", false, func(p *packets) string {
			return wants(silent(p.opens(22)), "new", !p.arrives("a1", "b1", plain), "udp", p.arrives("b1", "a1", plain), "udp back")
		}},
		{"new", "cuts: [{from: a, to: b, state: new, proto: tcp}]", false, func(p *packets) string {
			return wants(silent(p.opens(22)), "new", p.lives(), "old", p.arrives("a1", "b1", plain), "udp")
		}},
		{"established", "cuts: [{from: a, to: b, state: established, proto: tcp}]", false, func(p *packets) string {
			return wants(p.opens(echoes) == nil, "new", !p.lives(), "old", p.takes() > 0, "data over a new one", p.arrives("a1", "b1", plain), "udp")
		}},
		{"udp", "cuts: [{from: a, to: b, proto: udp}]", false, func(p *packets) string {
			return wants(p.opens(22) == nil, "new", p.lives(), "old", !p.arrives("a1", "b1", plain), "udp", !p.arrives("a1", "b1", overlay), "vxlan")
		}},
		{"vxlan", "cuts: [{from: a, to: b, proto: vxlan}]", false, func(p *packets) string {
			return wants(p.opens(22) == nil, "new", p.lives(), "old", p.arrives("a1", "b1", plain), "udp", !p.arrives("a1", "b1", overlay), "vxlan")
		}},
		{"ports", "cuts: [{from: a, to: b, ports: [22]}]", false, func(p *packets) string {
			return wants(silent(p.opens(22)), "port 22", p.opens(echoes) == nil, "port 7", p.lives(), "old", p.arrives("a1", "b1", plain), "udp")
		}},
		{"reset", "cuts: [{from: a, to: b, action: reset}]", false, func(p *packets) string {
			return wants(errors.Is(p.opens(22), syscall.ECONNREFUSED), "new", !p.lives(), "old", !p.arrives("a1", "b1", plain), "udp")
		}},
		{"icmp", "cuts: [{from: a, to: b, action: icmp}]", false, func(p *packets) string {
			err := p.opens(22)
			return wants(err != nil && !silent(err), "new", !p.arrives("a1", "b1", plain), "udp")
		}},
		{"loss", "slow: [{from: a, to: b, loss: 0.3}]", false, func(p *packets) string {
			n := p.lost()
			return wants(n > 30 && n < 100, fmt.Sprintf("%d of 200 lost", n))
		}},
		{"rate", "slow: [{from: a, to: b, mbit: 1}]", false, func(p *packets) string {
			took := p.takes()
			return wants(took > 1500*time.Millisecond, fmt.Sprintf("256 KiB in %v", took), p.arrives("a1", "b1", plain), "udp")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := *h
			h.t, h.six = t, tc.six
			h.inventory(map[string]string{"a1": "a1", "b1": "b1"})
			h.write("fault.yaml", strings.Replace(remoteCut, "cuts: [{from: a, to: b}]", tc.fault, 1))
			p := newPackets(t, &h, tc.six)
			before := h.state("a1") + h.state("b1")
			child, out := h.drill("run", h.path("fault.yaml"), "--inventory", h.path("hosts.yaml"), "--yes", "--hold", "12s")
			eventually(t, 30*time.Second, "the injection", func() bool { return strings.Contains(out.String(), "injected a-b") })
			if why := tc.there(p); why != "" {
				t.Errorf("in force, but: %s", why)
			}
			if err := h.ended(child, out); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
			if after := h.state("a1") + h.state("b1"); after != before {
				t.Errorf("the hosts are not as before:\n%s\nwas\n%s", after, before)
			}
			if err := p.opens(22); err != nil || !p.arrives("a1", "b1", plain) {
				t.Errorf("the way is not free again: %v", err)
			}
			t.Log(lastLine(out.String()))
		})
	}
}

// wants lists the names of what does not hold, of pairs of a condition and its name.
func wants(pairs ...any) string {
	var bad []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if !pairs[i].(bool) {
			bad = append(bad, pairs[i+1].(string))
		}
	}
	return strings.Join(bad, ", ")
}
