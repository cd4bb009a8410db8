package lab

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// Node is a machine of the lab: a network namespace with one address of each
// family, whose processes see its name as their hostname. (kube-apiservers of
// one hostname would share one identity Lease.)
type Node struct {
	nodePlan
	lab     *Lab
	space   *space.Space
	spawner *space.Spawner
	echo    *responder
	// ports is held while the lab listens on a port that a cut names.
	ports sync.Mutex
	// machine and worker are nil until the node runs Kubernetes.
	machine atomic.Pointer[machine]
	worker  atomic.Pointer[worker]
}

// Name is the site and the number of the node in it, as in "a1".
func (n *Node) Name() string { return n.name }

// Site is the name of the node's site.
func (n *Node) Site() string { return n.site }

// IP is the node's IPv4 address, IP6 its IPv6 address.
func (n *Node) IP() netip.Addr  { return n.ip4 }
func (n *Node) IP6() netip.Addr { return n.ip6 }

// Do runs f on a locked thread inside the node's namespace. Sockets opened by
// f stay in the node; goroutines started by f do not run in it. Start
// processes with Spawn.
func (n *Node) Do(f func() error) error { return n.space.Do(f) }

// DialContext connects from the node. The host in addr must be an IP literal:
// a resolver would run outside the node.
func (n *Node) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s from %s: %w", addr, n.name, err)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return nil, fmt.Errorf("dial %s from %s: host is not an IP address", addr, n.name)
	}
	return n.dial(ctx, network, addr, nil)
}

// dial connects from a local address, or from one that the kernel chooses.
func (n *Node) dial(ctx context.Context, network, addr string, local net.Addr) (net.Conn, error) {
	var conn net.Conn
	err := n.Do(func() (err error) {
		conn, err = (&net.Dialer{LocalAddr: local}).DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// healthPatience bounds one question for health.
const healthPatience = 3 * time.Second

// healthy asks a server on the node's loopback; nil says that it answered 200.
func (n *Node) healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	tr := &http.Transport{
		DialContext: n.DialContext,
		// Those with TLS have signed their certificates themselves, and the
		// question does not leave the node.
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // as much of it as comes
		return fmt.Errorf("ask %s: %s: %s", url, resp.Status, strings.Join(strings.Fields(string(body)), " "))
	}
	return nil
}
