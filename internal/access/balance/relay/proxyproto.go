package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The PROXY protocol as in proxy-protocol.txt of haproxy.org (2020/03/05);
// section numbers are its own.

// proxyHeader is what a PROXY header says. Both addresses are the zero value
// when it says nothing about them: UNKNOWN, LOCAL, or a family without IP
// addresses. Then those of the connection itself hold.
type proxyHeader struct {
	source, destination netip.AddrPort
}

const (
	// proxyV1Max is the longest header of version 1 with its CRLF (2.1).
	proxyV1Max = 107
	// proxyV2Max bounds a header of version 2 (2.2 allows 64 kB): addresses
	// take 216 bytes at most, the rest are TLVs that we skip.
	proxyV2Max = 4096
	v2Fixed    = 16
	v2Inet     = 12
	v2Inet6    = 36
	v2Unix     = 216
)

const (
	v2Local      = 0x20
	v2Proxy      = 0x21
	familyUnspec = 0x00
	familyTCP4   = 0x11
	familyTCP6   = 0x21
	familyUnix   = 0x31
)

var (
	v1Signature = []byte("PROXY ")
	v2Signature = []byte("\r\n\r\n\x00\r\nQUIT\n")
)

var (
	errProxyPeer    = errors.New("this address may not send a PROXY header; add it to the allowed networks")
	errProxyShort   = errors.New("PROXY header: the client closed before its end")
	errProxyMissing = errors.New("PROXY header: missing; let the client send one, or do not ask for it here")
	errProxyLong    = errors.New("PROXY header: too long")
)

// parseProxy reads a header from the start of b and returns its length. The
// length is 0 while b is the beginning of a header.
func parseProxy(b []byte) (proxyHeader, int, error) {
	switch {
	case begins(b, v1Signature):
		return parseProxyV1(b)
	case begins(b, v2Signature):
		return parseProxyV2(b)
	}
	return proxyHeader{}, 0, errProxyMissing
}

// begins compares as many bytes as there are.
func begins(b, signature []byte) bool {
	n := min(len(b), len(signature))
	return bytes.Equal(b[:n], signature[:n])
}

func parseProxyV1(b []byte) (proxyHeader, int, error) {
	line, _, found := bytes.Cut(b[:min(len(b), proxyV1Max)], []byte("\r\n"))
	if !found {
		if len(b) >= proxyV1Max {
			return proxyHeader{}, 0, errProxyLong
		}
		return proxyHeader{}, 0, nil
	}
	h, err := parseProxyLine(string(line))
	if err != nil {
		return proxyHeader{}, 0, err
	}
	return h, len(line) + len("\r\n"), nil
}

// parseProxyLine takes the line without its end: "PROXY TCP4 192.0.2.1
// 192.0.2.2 56324 443" (2.1). What follows UNKNOWN is to be ignored.
func parseProxyLine(line string) (proxyHeader, error) {
	words := strings.Split(line, " ")
	if len(words) > 1 && words[1] == "UNKNOWN" {
		return proxyHeader{}, nil
	}
	if len(words) != 6 || words[1] != "TCP4" && words[1] != "TCP6" {
		return proxyHeader{}, fmt.Errorf("PROXY header %q: not of the form PROXY TCP4|TCP6 source destination port port", line)
	}
	source, err := proxyAddress(words[1], words[2], words[4])
	if err != nil {
		return proxyHeader{}, fmt.Errorf("PROXY header %q: source: %w", line, err)
	}
	destination, err := proxyAddress(words[1], words[3], words[5])
	if err != nil {
		return proxyHeader{}, fmt.Errorf("PROXY header %q: destination: %w", line, err)
	}
	return proxyHeader{source, destination}, nil
}

func proxyAddress(family, address, port string) (netip.AddrPort, error) {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if a.Is4() != (family == "TCP4") || a.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("%s is no address of family %s", address, family)
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil || port != strconv.FormatUint(p, 10) {
		return netip.AddrPort{}, fmt.Errorf("%q is no port", port)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(p)), nil
}

func parseProxyV2(b []byte) (proxyHeader, int, error) {
	if len(b) < v2Fixed {
		return proxyHeader{}, 0, nil
	}
	command, family := b[12], b[13]
	size := v2Fixed + int(binary.BigEndian.Uint16(b[14:]))
	switch {
	case command != v2Local && command != v2Proxy:
		return proxyHeader{}, 0, fmt.Errorf("PROXY header: version and command %#02x; only 0x20 and 0x21 are defined", command)
	case size > proxyV2Max:
		return proxyHeader{}, 0, errProxyLong
	case len(b) < size:
		return proxyHeader{}, 0, nil
	case command == v2Local:
		return proxyHeader{}, size, nil
	}
	h, err := proxyAddresses(family, b[v2Fixed:size])
	if err != nil {
		return proxyHeader{}, 0, err
	}
	return h, size, nil
}

// proxyAddresses reads the address block (2.2); TLVs behind it are skipped.
func proxyAddresses(family byte, b []byte) (proxyHeader, error) {
	least := map[byte]int{familyUnspec: 0, familyTCP4: v2Inet, familyTCP6: v2Inet6, familyUnix: v2Unix}
	n, known := least[family]
	switch {
	case !known:
		return proxyHeader{}, fmt.Errorf("PROXY header: family and transport %#02x are not those of a stream", family)
	case len(b) < n:
		return proxyHeader{}, fmt.Errorf("PROXY header: %d bytes of addresses, family %#02x has %d", len(b), family, n)
	case family == familyTCP4:
		return proxyHeader{addressAt(b[0:4], b[8:]), addressAt(b[4:8], b[10:])}, nil
	case family == familyTCP6:
		return proxyHeader{addressAt(b[0:16], b[32:]), addressAt(b[16:32], b[34:])}, nil
	}
	return proxyHeader{}, nil
}

func addressAt(address, port []byte) netip.AddrPort {
	a, _ := netip.AddrFromSlice(address)
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
}

// appendProxy appends a header of version 1 or 2. Without both addresses it is
// one of an unknown connection.
func appendProxy(b []byte, version int, source, destination netip.AddrPort) []byte {
	known := source.IsValid() && destination.IsValid()
	four := known && source.Addr().Is4() && destination.Addr().Is4()
	switch {
	case version == 1 && !known:
		return append(b, "PROXY UNKNOWN\r\n"...)
	case version == 1:
		return appendProxyV1(b, four, source, destination)
	}
	b = append(b, v2Signature...)
	b = append(b, v2Proxy)
	switch {
	case !known:
		return append(b, familyUnspec, 0, 0)
	case four:
		b = append(b, familyTCP4, 0, v2Inet)
		b = append(b, source.Addr().AsSlice()...)
		b = append(b, destination.Addr().AsSlice()...)
	default:
		b = append(b, familyTCP6, 0, v2Inet6)
		s, d := source.Addr().As16(), destination.Addr().As16()
		b = append(append(b, s[:]...), d[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, source.Port())
	return binary.BigEndian.AppendUint16(b, destination.Port())
}

// appendProxyV1 writes IPv4 addresses beside IPv6 ones in their mapped form:
// the line knows one family.
func appendProxyV1(b []byte, four bool, source, destination netip.AddrPort) []byte {
	family := "TCP4"
	s, d := source.Addr(), destination.Addr()
	if !four {
		family = "TCP6"
		s, d = netip.AddrFrom16(s.As16()), netip.AddrFrom16(d.As16())
	}
	return fmt.Appendf(b, "PROXY %s %s %s %d %d\r\n", family, s, d, source.Port(), destination.Port())
}
