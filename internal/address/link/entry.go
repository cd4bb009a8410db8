package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Protocol marks an address as ours, as `ip -details address` shows: IFA_PROTO,
// which kernels before 5.18 neither keep nor tell. 0 to 3 are the kernel's own
// and 18 is keepalived's.
const Protocol = 104

// attributeProtocol is IFA_PROTO of linux/if_addr.h.
const attributeProtocol = 11

// forever is the lifetime of an address without one.
const forever = ^uint32(0)

// briefly is the longest lifetime, in seconds, by which Clean takes a
// deprecated address for one of ours on a kernel that does not tell the
// protocol. Nobody configures an address for so short a time.
const briefly = 60

// Entry is an address on the machine.
type Entry struct {
	Prefix   netip.Prefix
	Index    int // of the interface
	Protocol uint8
	// Preferred and Valid are seconds; the greatest value means for ever.
	Preferred, Valid uint32
	Flags            uint32 // IFA_F_*
	Scope            uint8  // RT_SCOPE_*
}

// Ours reports whether an agent put it there: by its mark, or, on an older
// kernel, by a lifetime that nobody else gives.
func (e Entry) Ours() bool {
	return e.Protocol == Protocol || e.Protocol == 0 && e.Preferred == 0 && e.Valid <= briefly
}

var errMessage = errors.New("malformed message")

// parseEntry reads an RTM_NEWADDR or RTM_DELADDR message.
func parseEntry(b []byte) (Entry, error) {
	if len(b) < unix.SizeofIfAddrmsg {
		return Entry{}, fmt.Errorf("parse address: %w: %d bytes", errMessage, len(b))
	}
	e := Entry{
		Index: int(binary.NativeEndian.Uint32(b[4:])), Flags: uint32(b[2]), Scope: b[3],
		Preferred: forever, Valid: forever,
	}
	var local, address netip.Addr
	err := attributes(b[unix.SizeofIfAddrmsg:], func(kind uint16, value []byte) {
		switch {
		case kind == unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(value)
		case kind == unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(value)
		case kind == attributeProtocol && len(value) >= 1:
			e.Protocol = value[0]
		case kind == unix.IFA_FLAGS && len(value) >= 4:
			e.Flags = binary.NativeEndian.Uint32(value)
		case kind == unix.IFA_CACHEINFO && len(value) >= 8:
			e.Preferred, e.Valid = binary.NativeEndian.Uint32(value), binary.NativeEndian.Uint32(value[4:])
		}
	})
	if err != nil {
		return Entry{}, fmt.Errorf("parse address: %w", err)
	}
	if !local.IsValid() { // IPv6 has it only where there is a peer, which is then in address
		local = address
	}
	if e.Prefix = netip.PrefixFrom(local, int(b[1])); !e.Prefix.IsValid() {
		return Entry{}, fmt.Errorf("parse address: %w: %s with %d bits", errMessage, local, b[1])
	}
	return e, nil
}

// attributes walks the attributes of a message. Each begins at a multiple of
// four bytes with its length, header included, and its kind. (That of the
// netlink library panics where the padding of the last one is missing.)
func attributes(b []byte, f func(kind uint16, value []byte)) error {
	for len(b) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return fmt.Errorf("%w: attribute of %d bytes, %d left", errMessage, size, len(b))
		}
		f(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofRtAttr:size])
		b = b[min(len(b), (size+3)&^3):]
	}
	return nil
}

// request is the message that puts e on its interface or, by its type, takes it off.
func (e Entry) request(kind, flags int) *nl.NetlinkRequest {
	addr, family := e.Prefix.Addr(), unix.AF_INET
	if addr.Is6() {
		family = unix.AF_INET6
	}
	m := nl.NewIfAddrmsg(family)
	m.Index, m.Prefixlen, m.Scope = uint32(e.Index), uint8(e.Prefix.Bits()), e.Scope
	req := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	req.AddData(m)
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, addr.AsSlice()))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, addr.AsSlice()))
	if kind != unix.RTM_NEWADDR {
		return req
	}
	req.AddData(nl.NewRtAttr(attributeProtocol, []byte{e.Protocol}))
	req.AddData(nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(e.Flags)))
	lifetimes := slices.Concat(nl.Uint32Attr(e.Preferred), nl.Uint32Attr(e.Valid), make([]byte, 8))
	req.AddData(nl.NewRtAttr(unix.IFA_CACHEINFO, lifetimes))
	return req
}

// entry is a as the kernel shall have it.
func (a Address) entry(index int) Entry {
	e := Entry{Prefix: a.Prefix, Index: index, Protocol: Protocol, Valid: uint32(a.lifetime() / time.Second)}
	switch addr := a.Prefix.Addr(); {
	case addr.Is6():
		e.Flags = unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE
	case !a.Global:
		e.Scope = unix.RT_SCOPE_HOST
	}
	return e
}
