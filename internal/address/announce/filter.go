package announce

import (
	"fmt"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// maxFiltered is the number of addresses for which the kernel looks closely.
// Above it every ARP packet and neighbor message wakes the process, which
// compares against a map. 32 addresses of IPv6 take 600 instructions, well below
// what net.core.optmem_max lets a socket have.
const maxFiltered = 32

const (
	acceptAll = 0xffff

	arpSender, arpTarget     = ethernetLength + 14, ethernetLength + 24
	ipv6Next, ipv6Source     = ethernetLength + 6, ethernetLength + 8
	icmpType, neighborTarget = ethernetLength + ipv6Length, ethernetLength + ipv6Length + 8
)

// arpFilter passes packets whose sender or target is one of addrs. The socket
// sees ARP only, so the ether type needs no test.
func arpFilter(addrs []netip.Addr) []bpf.Instruction {
	if len(addrs) > maxFiltered {
		return []bpf.Instruction{bpf.RetConstant{Val: acceptAll}}
	}
	var program []bpf.Instruction
	for _, at := range []uint32{arpSender, arpTarget} {
		program = append(program, bpf.LoadAbsolute{Off: at, Size: 4})
		for _, a := range addrs {
			program = append(program, passIfEqual(word(a, 0))...)
		}
	}
	return append(program, bpf.RetConstant{})
}

// neighborFilter passes neighbor messages whose target or source is one of
// addrs. Other IPv6 packets leave at the first or second test.
func neighborFilter(addrs []netip.Addr) []bpf.Instruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: ipv6Next, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: protocolICMPv6, SkipTrue: 1},
		bpf.RetConstant{},
		bpf.LoadAbsolute{Off: icmpType, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(Solicitation), SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(Advertisement), SkipTrue: 1},
		bpf.RetConstant{},
	}
	if len(addrs) > maxFiltered {
		return append(program, bpf.RetConstant{Val: acceptAll})
	}
	for _, a := range addrs {
		for _, at := range []uint32{neighborTarget, ipv6Source} {
			program = append(program, passIfAddress(a, at)...)
		}
	}
	return append(program, bpf.RetConstant{})
}

func passIfEqual(value uint32) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: value, SkipTrue: 1},
		bpf.RetConstant{Val: acceptAll},
	}
}

// passIfAddress compares the last word first: it differs most.
func passIfAddress(a netip.Addr, at uint32) []bpf.Instruction {
	var program []bpf.Instruction
	for i := 3; i >= 0; i-- {
		program = append(
			program,
			bpf.LoadAbsolute{Off: at + 4*uint32(i), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: word(a, i), SkipTrue: uint8(2*i + 1)},
		)
	}
	return append(program, bpf.RetConstant{Val: acceptAll})
}

// word returns the i-th 32 bits of an address.
func word(a netip.Addr, i int) uint32 {
	b := a.AsSlice()[4*i:]
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// attach replaces the filter of a socket.
func attach(fd int, program []bpf.Instruction) error {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return fmt.Errorf("assemble filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return fmt.Errorf("attach filter: %w", err)
	}
	return nil
}
