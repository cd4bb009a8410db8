package bgp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"golang.org/x/sys/unix"
)

// headerLength and maxLength are of RFC 4271 section 4.1.
const (
	headerLength = 19
	maxLength    = 4096
)

// read returns the next message of a stream. An update is returned without its
// content. The error is a *packet.MessageError for what cannot be read.
func read(r io.Reader, buffer *[maxLength]byte) (*packet.BGPMessage, error) {
	if _, err := io.ReadFull(r, buffer[:headerLength]); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint16(buffer[16:18]))
	for _, b := range buffer[:16] {
		if b != 0xff {
			return nil, malformed(packet.BGP_ERROR_SUB_CONNECTION_NOT_SYNCHRONIZED, nil, "the marker is missing")
		}
	}
	if length < headerLength || length > maxLength {
		return nil, malformed(packet.BGP_ERROR_SUB_BAD_MESSAGE_LENGTH, buffer[16:18], fmt.Sprintf("a message of %d octets", length))
	}
	if _, err := io.ReadFull(r, buffer[headerLength:length]); err != nil {
		return nil, err
	}
	h := &packet.BGPHeader{Len: uint16(length), Type: buffer[18]}
	switch h.Type {
	case packet.BGP_MSG_UPDATE:
		return &packet.BGPMessage{Header: *h}, nil
	case packet.BGP_MSG_OPEN, packet.BGP_MSG_NOTIFICATION, packet.BGP_MSG_KEEPALIVE, packet.BGP_MSG_ROUTE_REFRESH:
	default:
		return nil, malformed(packet.BGP_ERROR_SUB_BAD_MESSAGE_TYPE, []byte{h.Type}, fmt.Sprintf("a message of type %d", h.Type))
	}
	m, err := packet.ParseBGPBody(h, buffer[headerLength:length])
	if err != nil {
		if bad, ok := errors.AsType[*packet.MessageError](err); ok {
			return nil, bad
		}
		return nil, malformed(packet.BGP_ERROR_SUB_BAD_MESSAGE_LENGTH, nil, err.Error())
	}
	return m, nil
}

func malformed(subcode uint8, data []byte, text string) error {
	return packet.NewMessageError(packet.BGP_ERROR_MESSAGE_HEADER_ERROR, subcode, data, text)
}

// dialing is bounded so that the kernel's second SYN, a second after the first,
// still counts, and not the third, which would come after three.
const dialTimeout = 2 * time.Second

// dial connects to a peer.
func dial(ctx context.Context, p *peerConfig) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		return control(c, p, p.iface)
	}}
	if p.local.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.local.WithZone(p.address.Zone()), 0))
	}
	c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(p.address, p.port).String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// control sets what a socket needs before it connects or listens.
func control(c syscall.RawConn, p *peerConfig, device string) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		if device != "" {
			if failed = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, device); failed != nil {
				failed = fmt.Errorf("bind to %s: %w", device, failed)
				return
			}
		}
		if failed = sign(int(fd), p); failed == nil {
			failed = tune(int(fd), p)
		}
	})
	return errors.Join(err, failed)
}

// sign has the kernel sign segments to and from the peer, RFC 2385.
func sign(fd int, p *peerConfig) error {
	if p.password == "" {
		return nil
	}
	key := &unix.TCPMD5Sig{Keylen: uint16(len(p.password))}
	copy(key.Key[:], p.password)
	if p.address.Is4() {
		key.Addr.Family = unix.AF_INET
		a := p.address.As4()
		copy(key.Addr.Data[2:], a[:])
	} else {
		key.Addr.Family = unix.AF_INET6
		a := p.address.As16()
		copy(key.Addr.Data[6:], a[:])
	}
	if err := unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, key); err != nil {
		return fmt.Errorf("set TCP-MD5 password: %w", err)
	}
	return nil
}

// tune sets how far packets get, how routers treat them, and how long the kernel
// keeps trying.
func tune(fd int, p *peerConfig) error {
	level, ttl, class := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS
	if p.address.Is6() {
		level, ttl, class = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS
	}
	if p.ttl > 0 {
		if err := unix.SetsockoptInt(fd, level, ttl, p.ttl); err != nil {
			return fmt.Errorf("set TTL: %w", err)
		}
	}
	// Internetwork control, RFC 4594 section 3.2: not the first to be dropped
	// where a link is full.
	const internetworkControl = 48 << 2
	if err := unix.SetsockoptInt(fd, level, class, internetworkControl); err != nil {
		return fmt.Errorf("set traffic class: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(p.hold.Milliseconds())); err != nil {
		return fmt.Errorf("set timeout: %w", err)
	}
	return nil
}

// causeOf is what kept a dial from its end.
func causeOf(err error, p *peerConfig, alive bool) Cause {
	c := Cause{Kind: Other, Password: p.password != "", Alive: alive}
	var number syscall.Errno
	if errors.As(err, &number) {
		c.Text = number.Error()
	}
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ECONNRESET):
		c.Kind = NoPort
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		c.Kind, c.Text = NoAnswer, ""
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.EHOSTDOWN):
		c.Kind = NoRoute
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EINVAL):
		c.Kind = NoLocal
	default:
		if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
			c.Kind, c.Text = NoAnswer, ""
			break
		}
		c.Text = err.Error()
	}
	return c
}

// localOf are the addresses of the interface that a connection leaves by. Host
// prefixes are left out: the addresses that are announced have them.
func localOf(conn *net.TCPConn) Local {
	ap, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return Local{}
	}
	own := ap.AddrPort().Addr().Unmap()
	l := Local{}
	l.set(own)
	interfaces, err := net.Interfaces()
	if err != nil {
		return l
	}
	for i := range interfaces {
		list, err := interfaces[i].Addrs()
		if err != nil {
			continue
		}
		if all := networks(list); has(all, own) {
			for _, p := range all {
				if a := p.Addr(); !p.IsSingleIP() && !a.IsLinkLocalUnicast() && !a.IsLoopback() {
					l.set(a)
				}
			}
		}
	}
	return l
}

// set keeps the first address of each family.
func (l *Local) set(a netip.Addr) {
	if a.Is4() && !l.Four.IsValid() {
		l.Four = a
	}
	if a.Is6() && !l.Six.IsValid() {
		l.Six = a
	}
}

func networks(list []net.Addr) []netip.Prefix {
	var all []netip.Prefix
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func has(all []netip.Prefix, a netip.Addr) bool {
	for _, p := range all {
		if p.Addr() == a.WithZone("") {
			return true
		}
	}
	return false
}

// identifier is the first IPv4 address of the machine that is neither on lo nor
// one that comes and goes.
func identifier() (netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list addresses: %w", err)
	}
	for _, p := range networks(list) {
		if a := p.Addr(); a.Is4() && !p.IsSingleIP() && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
			return a, nil
		}
	}
	return netip.Addr{}, errors.New("routerID: missing, and the machine has no IPv4 address; set it to a number of four octets that no other router has")
}
