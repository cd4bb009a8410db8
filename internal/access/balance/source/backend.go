package source

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Backend is a server that connections may be carried to.
type Backend struct {
	// Network is "tcp" or "unix".
	Network string `json:"network"`
	// Address is "10.0.0.1:6443", "[fd00::1]:6443" or the path of a socket,
	// in the form that ParseAddress gives.
	Address string `json:"address"`
	// Zone, Node and Name are what the sources know; may be empty.
	Zone string `json:"zone,omitempty"`
	Node string `json:"node,omitempty"`
	Name string `json:"name,omitempty"`
	// Weight is the share beside others; 0 counts as 1.
	Weight int `json:"weight,omitempty"`
	// Backup says that the backend serves only when no other can.
	Backup bool `json:"backup,omitempty"`
	// MaxConns bounds its connections; 0 means no bound. From settings only.
	MaxConns int `json:"maxConns,omitempty"`
	// Source names who lists it, several with ", " between: "static",
	// "endpointslices default/kubernetes", "last good".
	Source string `json:"source,omitempty"`
	// Demoted says that it is static and a discovery lists only others: it
	// is used only when none of those can serve.
	Demoted bool `json:"demoted,omitempty"`
	// Serving and Terminating are the conditions of its endpoint; true and
	// false where no EndpointSlice lists it. They inform; health checks judge.
	Serving     bool `json:"serving"`
	Terminating bool `json:"terminating,omitempty"`
}

// ID is the same for two backends exactly when they are the same server:
// the address, or "unix:" and the path.
func (b Backend) ID() string {
	if b.Network == "unix" {
		return "unix:" + b.Address
	}
	return b.Address
}

// ParseAddress splits "IP:PORT", "[IPv6]:PORT" or "unix:/PATH" into network
// and address, in the one form in which addresses are compared: an IPv4
// address within IPv6 becomes IPv4.
func ParseAddress(s string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		switch {
		case !strings.HasPrefix(path, "/"):
			return "", "", fmt.Errorf("address %q: not an absolute path; write unix:/run/x.sock", s)
		case len(path) > 107: // sockaddr_un, unix(7)
			return "", "", fmt.Errorf("address %.40q…: over the 107 bytes of a socket's path; shorten it", s)
		}
		return "unix", path, nil
	}
	ap, err := netip.ParseAddrPort(s)
	if err == nil {
		return "tcp", netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()).String(), nil
	}
	host, port, splitErr := net.SplitHostPort(s)
	switch {
	case splitErr != nil:
		if ip, err := netip.ParseAddr(s); err == nil {
			return "", "", fmt.Errorf("address %q: no port; write %s", s, netip.AddrPortFrom(ip, 6443))
		}
		return "", "", fmt.Errorf("address %.80q: not IP:PORT; write 10.0.0.1:6443, [fd00::1]:6443 or unix:/run/x.sock", s)
	case isIP(host):
		return "", "", fmt.Errorf("address %.80q: port %.20q is not a number from 1 to 65535; write IP:PORT", s, port)
	}
	return "", "", fmt.Errorf("address %.80q: a name, not an IP address; write the address, or look the name up as a dns source", s)
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
