package lab

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// udpHeader is the size of a UDP header (RFC 768).
const udpHeader = 8

// overhear takes in probes to a UDP port that may have another owner, such as
// a VXLAN device, which the kernel does not share. A raw socket sees a copy of
// every datagram that has passed the node's filters, whoever gets it.
func (r *responder) overhear(port uint16) error {
	conn, err := net.ListenIP("ip4:udp", nil)
	if err != nil {
		return fmt.Errorf("overhear port %d: %w", port, err)
	}
	r.closers = append(r.closers, conn)
	if err := onlyProbes(conn, port); err != nil {
		return fmt.Errorf("overhear port %d: %w", port, err)
	}
	r.wg.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, _, err := conn.ReadFromIP(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil && n >= udpHeader {
				r.seen.saw(buf[udpHeader:n])
			}
		}
	})
	return nil
}

// onlyProbes lets the kernel drop all but datagrams to port of a probe's size,
// lest the lab reads the overlay's whole traffic.
func onlyProbes(conn *net.IPConn, port uint16) error {
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadMemShift{Off: 0}, // X is the length of the IP header
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(port), SkipTrue: 3},
		bpf.LoadIndirect{Off: 4, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(udpHeader + len(nonce{})), SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return fmt.Errorf("assemble filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var attached error
	err = raw.Control(func(fd uintptr) {
		attached = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
	return errors.Join(err, attached)
}
