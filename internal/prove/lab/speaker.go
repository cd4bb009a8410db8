package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/hops"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// RouterOptions are what the router of a site is told when it speaks BGP.
type RouterOptions struct {
	// AS is the router's, Neighbors the machines that may announce, usually
	// nodes of the site.
	AS        uint32
	Neighbors []frr.Neighbor
	// BFD is a session with each neighbor; nil means none.
	BFD *frr.BFD
	// Hold and Keepalive are the timers of the sessions; 0 means FRR's 180 s and
	// a third.
	Hold, Keepalive time.Duration
	// MaxPaths bounds the next hops of a route; 0 means FRR's own, 16.
	MaxPaths int
	// Prefixes are accepted from neighbors. Routers of sites with a link to this
	// one have static routes to them through it, at all times.
	Prefixes []netip.Prefix
}

// Router is the router of a site with FRR in it. Its Console asks and tells
// bgpd, bfdd and zebra.
type Router struct {
	frr.Console
	lab     *Lab
	inner   *router
	options RouterOptions
	config  frr.Config
	spawner *space.Spawner
	// daemons are running or ended, by name.
	daemons map[string]*Child
}

// daemonsOf lists what a router runs, in the order of their start.
var daemonsOf = []string{"zebra", "bfdd", "bgpd"}

// perPort spreads the connections of a router over its next hops by ports, as
// routers do: by addresses alone, all connections of a client go one way.
var perPort = map[string]string{
	"net/ipv4/fib_multipath_hash_policy": "1",
	"net/ipv6/fib_multipath_hash_policy": "1",
}

// daemonPatience bounds how long a daemon may take until it answers: 0.1 s on
// two idle cores.
const daemonPatience = 20 * time.Second

// StartRouter lets the router of a site speak BGP, and BFD if that is asked
// for, by FRR. It returns when all daemons answer; sessions come up later. They
// run until the lab is closed. A site has one.
func (l *Lab) StartRouter(ctx context.Context, site string, o RouterOptions) (*Router, error) {
	l.change.Lock()
	defer l.change.Unlock()
	inner, ok := l.routers[site]
	if !ok {
		return nil, fmt.Errorf("start router: site %q is unknown", site)
	}
	if l.speakers[site] != nil {
		return nil, fmt.Errorf("start router: that of site %s speaks BGP already", site)
	}
	if err := frr.Preflight(); err != nil {
		return nil, fmt.Errorf("start router of %s: %w", site, err)
	}
	if err := l.lead(site, o.Prefixes); err != nil {
		return nil, fmt.Errorf("start router of %s: %w", site, err)
	}
	if err := sysctl(inner.space, perPort); err != nil {
		return nil, fmt.Errorf("start router of %s: %w", site, err)
	}
	r := &Router{
		Console: frr.Console{Dir: filepath.Join(l.dir, "frr", site)},
		lab:     l, inner: inner, options: o, daemons: map[string]*Child{},
	}
	r.config = frr.Config{
		AS: o.AS, RouterID: inner.site.gate4.Addr(), Neighbors: o.Neighbors, Hold: o.Hold, Keepalive: o.Keepalive,
		BFD: o.BFD, MaxPaths: o.MaxPaths, Accept: o.Prefixes,
	}
	var err error
	if r.spawner, err = space.NewSpawner(inner.space); err != nil {
		return nil, fmt.Errorf("start router of %s: %w", site, err)
	}
	l.speakers[site] = r
	for _, name := range daemonsOf {
		if err := r.Start(ctx, name); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// lead gives the routers of other sites the way to prefixes at this one.
func (l *Lab) lead(site string, prefixes []netip.Prefix) error {
	for _, lp := range l.plan.links {
		i := slices.IndexFunc(lp.ends[:], func(e linkEnd) bool { return e.site == site })
		if i < 0 {
			continue
		}
		here, there := lp.ends[i], lp.ends[1-i]
		for _, p := range prefixes {
			via := here.ip4.Addr()
			if p.Addr().Is6() {
				via = here.ip6.Addr()
			}
			l.journal.write("route %s via %s (in router %s)", p, via, there.site)
			if err := addRoute(l.routers[there.site].nl, there.ifname, p, via); err != nil {
				return err
			}
		}
	}
	return nil
}

// Start starts a daemon (zebra, bfdd, bgpd) that does not run, with the
// settings of the router, and returns when it answers.
func (r *Router) Start(ctx context.Context, daemon string) error {
	settings, ok := map[string]string{"zebra": "", "bfdd": r.config.BFDD(), "bgpd": r.config.BGPD()}[daemon]
	if !ok {
		return fmt.Errorf("start %s in router %s: use one of %v", daemon, r.Site(), daemonsOf)
	}
	where := "router " + r.Site()
	cmd, err := frr.Command(r.Dir, daemon, settings)
	if err != nil {
		return err
	}
	r.lab.journal.write("start %s (in %s)", daemon, where)
	child, err := r.lab.launch(where, r.spawner, daemon+"-"+r.Site(), cmd)
	if err != nil {
		return err
	}
	r.daemons[daemon] = child
	r.prefer(child)
	ctx, cancel := context.WithTimeout(ctx, daemonPatience)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- r.Await(ctx, daemon) }()
	select {
	case err = <-answered:
	case <-child.Done():
		cancel()
		err = fmt.Errorf("it has ended: %w", cmp.Or(child.Err(), errors.New("without saying why")))
	}
	if err != nil {
		return fmt.Errorf("start %s in %s: %w: see %s", daemon, where, err, r.lab.logPath(child.name))
	}
	return nil
}

// prefer lets a daemon run before ordinary threads: a router has a processor of its
// own, and BFD at 100 ms measures else what other processes of this machine do. The
// daemon's own threads come later and inherit it.
func (r *Router) prefer(child *Child) {
	first := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(child.Pid(), first, 0); err != nil {
		r.lab.log.Warn("daemon runs as ordinary processes do", "daemon", child.name, "error", err)
	}
}

// Stop ends a daemon: in order within grace, which tells neighbors, or at once
// with a grace of 0.
func (r *Router) Stop(ctx context.Context, daemon string, grace time.Duration) error {
	child := r.daemons[daemon]
	if child == nil {
		return fmt.Errorf("stop %s in router %s: it does not run", daemon, r.Site())
	}
	r.lab.journal.write("stop %s, grace %s (in router %s)", daemon, grace, r.Site())
	return child.Stop(ctx, grace)
}

// Site is the name of the router's site.
func (r *Router) Site() string { return r.inner.site.Name }

// IP is the router's IPv4 address in its site, IP6 its IPv6 address.
func (r *Router) IP() netip.Addr  { return r.inner.site.gate4.Addr() }
func (r *Router) IP6() netip.Addr { return r.inner.site.gate6.Addr() }

// Spawn starts a process in the router's namespace, as [Node.Spawn] does.
func (r *Router) Spawn(ctx context.Context, p Process) (*Child, error) {
	return r.lab.spawn(ctx, "router "+r.Site(), r.spawner, p)
}

// Hops are the next hops that the router's kernel uses for an address; none
// without a route.
func (r *Router) Hops(to netip.Addr) ([]netip.Addr, error) {
	all, err := hops.Lookup(r.inner.nl, to)
	if errors.Is(err, hops.ErrNoRoute) {
		return nil, nil
	}
	var out []netip.Addr
	for _, h := range all {
		out = append(out, h.Via)
	}
	return out, err
}

// AwaitHops returns when the router has as many next hops for an address.
func (r *Router) AwaitHops(ctx context.Context, to netip.Addr, n int) error {
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		got, err := r.Hops(to)
		if err == nil && len(got) == n {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("await %d next hops to %s in router %s: %w: it has %v", n, to, r.Site(), ctx.Err(), got), err)
		case <-again.C:
		}
	}
}
