package relay

import (
	"errors"
	"net/netip"
)

type ProxyHeader struct{ Source, Destination netip.AddrPort }

var (
	errProxyPeer  = errors.New("peer may not send a PROXY header")
	errProxyShort = errors.New("PROXY header ends early")
)

func parseProxy(b []byte) (ProxyHeader, int, error)                     { return ProxyHeader{}, 0, errProxyShort }
func appendProxy(b []byte, version int, src, dst netip.AddrPort) []byte { return b }
