package probe

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/hops"
)

// routePath asks the kernel for the next hops of an address, in the network
// namespace in which it was made. Nothing is sent.
type routePath struct {
	kernel *netlink.Handle
	to     netip.Addr
}

func newRoute(p *Path) (attempter, error) {
	to, err := netip.ParseAddr(p.URL.Hostname())
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &routePath{kernel, to}, nil
}

func (r *routePath) attempt(context.Context) outcome {
	all, err := hops.Lookup(r.kernel, r.to)
	o := outcome{err: err}
	if err != nil && Classify(err) != ClassUnreachable {
		return o // the kernel did not say
	}
	o.hops = make([]string, len(all))
	for i, h := range all {
		o.hops[i] = h.String()
	}
	return o
}

func (r *routePath) close() { r.kernel.Close() }

// checkRoute wants an address and nothing else in the URL of a route.
func (t *Target) checkRoute(host, rest string) error {
	if _, err := netip.ParseAddr(host); err != nil || rest != "" {
		return fmt.Errorf("url: %q is no address alone; write route://203.0.113.10 or route://[2001:db8::10]", t.URL)
	}
	return nil
}

// Hops are the next hops that the kernel had for an address from a moment on.
type Hops struct {
	Since time.Time
	// Via are gateways, in order; none says that there was no route.
	Via []string
}

// String is "3 (10.0.0.1, 10.0.0.2, 10.0.0.3)".
func (h Hops) String() string {
	if len(h.Via) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", len(h.Via), strings.Join(h.Via, ", "))
}

// turn takes the next sample of a path and returns the change of next hops that
// it shows, if any; before holds none at the first sample of a route.
func (s *Summary) turn(sample Sample) (before *Hops, changed bool) {
	if sample.Hops == nil {
		return nil, false // not a route, or the kernel did not say
	}
	if n := len(s.Hops); n > 0 {
		if slices.Equal(s.Hops[n-1].Via, sample.Hops) {
			return nil, false
		}
		before = &s.Hops[n-1]
		s.HopChanges++
	}
	if before == nil || len(sample.Hops) < s.FewestHops {
		s.FewestHops = len(sample.Hops)
	}
	if len(s.Hops) == maxGaps {
		s.Hops = s.Hops[1:]
	}
	// Done, and not Sent: the kernel had them when it answered.
	s.Hops = append(s.Hops, Hops{sample.Done, sample.Hops})
	return before, true
}

// hopsWords is a change in one line: "next hops 3 → 2 (10.0.0.1, 10.0.0.3)".
func hopsWords(before *Hops, now Hops) string {
	if before == nil {
		return "next hops " + now.String()
	}
	return fmt.Sprintf("next hops %d → %s", len(before.Via), now)
}

// maxTold bounds what the summary of a route for people tells.
const maxTold = 20

// turns is how the next hops changed, in one line:
// "next hops 3 → 2 at 10:00:01.250 → 3 at 10:00:09.100".
func (s Summary) turns() string {
	var b strings.Builder
	fmt.Fprintf(&b, "next hops %d", len(s.Hops[0].Via))
	rest := s.Hops[1:]
	if left := len(rest) - maxTold; left > 0 {
		fmt.Fprintf(&b, " … %s …", plural(s.HopChanges-maxTold, "change"))
		rest = rest[left:]
	}
	for _, h := range rest {
		fmt.Fprintf(&b, " → %d at %s", len(h.Via), stamp(h.Since))
	}
	return b.String()
}
