package relay

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
)

// Target is one backend of one group. Its identity is the pointer: a target
// that leaves and comes back is a new one. The exported fields are not to be
// changed; the counters are kept by the engine and read from anywhere.
type Target struct {
	// ID names the target in logs and metrics.
	ID string
	// Network is "tcp" or "unix".
	Network string
	// Address is "10.0.0.1:6443", "[fd00::1]:6443" or a path.
	Address string
	// SendProxy is the version of the PROXY header that the target wants: 0
	// for none, 1 or 2.
	SendProxy int

	addr sockaddr

	active, connecting     atomic.Int64
	total, failed, broken  atomic.Uint64
	bytesToward, bytesFrom atomic.Uint64
}

// NewTarget checks the address and returns a target with zero counters. Host
// names are not accepted: who resolves names decides when to ask again.
func NewTarget(id, network, address string, sendProxy int) (*Target, error) {
	t := &Target{ID: id, Network: network, Address: address, SendProxy: sendProxy}
	if sendProxy < 0 || sendProxy > 2 {
		return nil, fmt.Errorf("target %s: send-proxy %d is not a version; use 0 (none), 1 or 2", id, sendProxy)
	}
	var err error
	switch network {
	case "tcp":
		t.addr, err = parseInet(address)
	case "unix":
		var ok bool
		if t.addr, ok = unixAddr(address); !ok {
			err = fmt.Errorf("path %q is empty or longer than 107 bytes; use a shorter one", address)
		}
	default:
		err = fmt.Errorf("network %q is unknown; use tcp or unix", network)
	}
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", id, err)
	}
	return t, nil
}

func parseInet(address string) (sockaddr, error) {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || ap.Port() == 0 {
		return sockaddr{}, fmt.Errorf("address %q is not an IP address with a port; use 10.0.0.1:6443 or [fd00::1]:6443", address)
	}
	zone, err := zoneIndex(ap.Addr().Zone())
	if err != nil {
		return sockaddr{}, fmt.Errorf("address %q: %w", address, err)
	}
	return inetAddr(netip.AddrPortFrom(ap.Addr().WithZone("").Unmap(), ap.Port()), zone), nil
}

// zoneIndex returns the number of an interface given by name or number.
func zoneIndex(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifc, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("zone %q: %w", zone, err)
	}
	return uint32(ifc.Index), nil
}

// Active is the number of connections that the target has accepted and that
// are open.
func (t *Target) Active() int { return int(t.active.Load()) }

// Connecting is the number of attempts under way.
func (t *Target) Connecting() int { return int(t.connecting.Load()) }

// Total is the number of connections that the target ever accepted.
func (t *Target) Total() uint64 { return t.total.Load() }

// Failed is the number of attempts that failed by the target's fault: refused,
// unreachable, or closed before the first byte.
func (t *Target) Failed() uint64 { return t.failed.Load() }

// Broken is the number of established connections that the target's side ended
// out of order: by a reset, or because it was not heard of any more (keepalive,
// TCP_USER_TIMEOUT). Those that count as Failed do not count here.
func (t *Target) Broken() uint64 { return t.broken.Load() }

// BytesIn is the number of bytes carried from clients to the target.
func (t *Target) BytesIn() uint64 { return t.bytesToward.Load() }

// BytesOut is the number of bytes carried from the target to clients.
func (t *Target) BytesOut() uint64 { return t.bytesFrom.Load() }

// String returns the ID and the address.
func (t *Target) String() string { return t.ID + " (" + t.Address + ")" }
