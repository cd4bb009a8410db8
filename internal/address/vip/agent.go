package vip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// contender is what decides about one group, or several that move together.
type contender interface {
	// run holds the groups whenever they are to be held here, until ctx ends;
	// then it hands them over and returns.
	run(ctx context.Context)
	// changed is told of interfaces and addresses, and must not block.
	changed(link.Event)
	// ailing is told, in any goroutine, that checks of a group have changed.
	ailing(g *group)
	// release hands the groups over, to the named peer or to any.
	release(ctx context.Context, to string) error
	alive() error
	of() []*group
	status(ctx context.Context) ([]GroupStatus, error)
}

// agent is `holdfast vip run`.
type agent struct {
	settings Settings
	log      *slog.Logger
	stats    *metrics
	door     *hold.Door
	links    *link.Handle
	routing  *routing

	mu         sync.Mutex
	restore    []func() error // of kernel settings
	held       []netip.Addr   // all addresses of all groups
	contenders []contender
	sockets    map[netip.AddrPort]*ask.Socket
}

// newAgent makes an agent that holds nothing yet. Its error may pass.
func newAgent(s Settings, stats *metrics, log *slog.Logger) (_ *agent, err error) {
	a := &agent{settings: s, log: log, stats: stats}
	for i := range s.Groups {
		g := &s.Groups[i]
		a.held = append(a.held, g.addresses...)
		if g.Interface == "" {
			if g.Interface, err = routeTo(g.addresses[0]); err != nil {
				return nil, fmt.Errorf("group %s: interface: %w; write its name", g.Name, err)
			}
		}
	}
	if a.links, err = link.Open(); err != nil {
		return nil, err
	}
	if err := a.build(); err != nil {
		a.links.Close()
		return nil, err
	}
	return a, nil
}

// build makes gate and contenders. What an earlier run left goes before the
// tables that keep it mute.
func (a *agent) build() (err error) {
	gone, err := a.links.Clean(append(a.leftOfServices(), a.held...)...)
	for _, e := range gone {
		a.log.Info("address of an earlier run removed", keyAddress, e.Prefix.Addr())
	}
	if err != nil {
		return err
	}
	left, err := a.links.CleanVirtual(a.settings.Table)
	for _, name := range left {
		a.log.Info("virtual interface of an earlier run removed", keyInterface, name)
	}
	if err != nil {
		return err
	}
	if a.door, err = hold.OpenDoor(a.settings.gate()); err != nil {
		return err
	}
	if a.routing, err = openRouting(&a.settings, a.log); err != nil {
		return errors.Join(err, a.door.Close())
	}
	if err := a.assemble(); err != nil {
		a.hangUp()
		return errors.Join(err, a.routing.close(), a.door.Close())
	}
	return nil
}

// hangUp closes sockets that are not served, lest the next try find them in use.
func (a *agent) hangUp() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range a.sockets {
		_ = s.Serve(ctx)
	}
}

// tune has the kernel ask for neighbours with the machine's own addresses.
func (a *agent) tune(iface string) {
	restore, err := link.SetARP(iface)
	if err != nil {
		a.log.Warn("the kernel may ask for its neighbours by a held address", keyInterface, iface, keyError, err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restore = append(a.restore, restore)
}

// routeTo finds the interface of the route to an address.
func routeTo(addr netip.Addr) (string, error) {
	routes, err := netlink.RouteGet(addr.AsSlice())
	if err != nil || len(routes) == 0 {
		return "", fmt.Errorf("no route to %s", addr)
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", fmt.Errorf("no interface of the route to %s: %w", addr, err)
	}
	return link.Attrs().Name, nil
}

// assemble makes a contender of each group, or of those that move together.
func (a *agent) assemble() error {
	together := map[string]*owner{}
	for i := range a.settings.Groups {
		s := &a.settings.Groups[i]
		g := &group{settings: s, gate: newHealthGate(s, a.log), hooks: newHooks(s.Hooks, a.log), state: stateInitialize, since: time.Now(), next: string(vrrp.CauseStart)}
		g.gate.paths = a.routing.paths
		if s.VRRP == nil {
			c, err := a.other(g)
			if err != nil {
				return fmt.Errorf("group %s: %w", s.Name, err)
			}
			a.contenders = append(a.contenders, c)
			continue
		}
		o := together[s.VRRP.Sync]
		if o == nil || s.VRRP.Sync == "" {
			o = newOwner(a, s)
			together[s.VRRP.Sync] = o
			a.contenders = append(a.contenders, o)
		}
		if err := o.add(g); err != nil {
			return fmt.Errorf("group %s: %w", s.Name, err)
		}
	}
	for _, c := range a.contenders {
		if o, ok := c.(*owner); ok {
			if err := o.join(); err != nil {
				return err
			}
		}
	}
	if a.settings.Services != nil {
		p, err := newPublisher(a)
		if err != nil {
			return err
		}
		a.contenders = append(a.contenders, p)
	}
	return nil
}

// other makes the contender of a group that no VRRP decides about.
func (a *agent) other(g *group) (contender, error) {
	if g.settings.Lease != nil {
		return newTenant(a, g)
	}
	return newEverywhere(a, g)
}

// run holds until ctx ends, and then hands over.
func (a *agent) run(ctx context.Context) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var around, inner sync.WaitGroup
	around.Go(func() { a.watch(background) })
	for _, c := range a.contenders {
		for _, g := range c.of() {
			around.Go(func() { g.gate.run(background, func() { c.ailing(g) }) })
			around.Go(func() { g.hooks.run(background) })
		}
		inner.Go(func() { c.run(ctx) })
	}
	for _, s := range a.sockets {
		around.Go(func() { _ = s.Serve(background) })
	}
	around.Go(func() { a.routing.run(background) })
	around.Go(func() { a.control(background) })
	inner.Wait()
	stop()
	around.Wait()
	a.end()
}

// end gives everything back to the kernel.
func (a *agent) end() {
	err := errors.Join(a.routing.end(), a.door.Close())
	for _, restore := range a.restore {
		err = errors.Join(err, restore())
	}
	if err != nil {
		a.log.Warn("not everything was given back", keyError, err)
	}
	a.links.Close()
}

// watch tells the contenders of interfaces and addresses until ctx ends.
func (a *agent) watch(ctx context.Context) {
	var names []string
	for i := range a.settings.Groups {
		names = append(names, a.settings.Groups[i].Interface)
	}
	if a.settings.Services != nil {
		names = append(names, a.settings.Services.Interface)
	}
	for ctx.Err() == nil {
		w, err := link.NewWatcher(a.links, names, a.held)
		if err == nil {
			err = w.Run(ctx, func(e link.Event) {
				for _, c := range a.contenders {
					c.changed(e)
				}
			})
		}
		if err != nil {
			a.log.Warn("interfaces are looked at once a second only", keyError, err)
			pause(ctx, time.Second)
		}
	}
}

// alive says whether every loop turns.
func (a *agent) alive() error {
	var all []error
	for _, c := range a.contenders {
		all = append(all, c.alive())
	}
	return errors.Join(all...)
}
