package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/hops"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/test/caller"
)

// shared is the address that every machine has; no link has its network.
var shared = netip.MustParseAddr("203.0.113.10")

const (
	routerAS, machineAS = 65001, 65010
	deathBar            = 400  // ms
	backBar             = 3000 // ms
	// flows are clients with ports of their own, over which the router spreads.
	flows = 4
)

// routerStation is the last.
func (a *arena) routerStation() *segment.Station { return a.segment.Station(a.machines + 2) }

// routerConfig is a router with BGP and BFD towards all machines.
func (a *arena) routerConfig() frr.Config {
	c := frr.Config{AS: routerAS, RouterID: a.routerStation().Four, MaxPaths: 8, BFD: fastBFD}
	for i := 1; i <= a.machines; i++ {
		c.Neighbors = append(c.Neighbors, frr.Neighbor{Address: a.segment.Station(i).Four, AS: machineAS})
	}
	return c
}

var fastBFD = &frr.BFD{Interval: 100 * time.Millisecond, Multiplier: 3}

// router starts one on the last station, for as long as the arena stands.
func (a *arena) router(ctx context.Context, c frr.Config) error {
	// Sessions that only check a path are not those of BGP's neighbors.
	bfdd := c.BFDD()
	for _, n := range c.Neighbors {
		bfdd += fmt.Sprintf(" peer %s\n  profile lab\n", n.Address)
	}
	console := frr.Console{Dir: a.path("frr-%d", a.machines+2)}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, d := range []struct{ name, settings string }{
		// Or bgpd would make use of its route-maps only 5 s after its start.
		{"zebra", ""}, {"bfdd", bfdd}, {"bgpd", "bgp route-map delay-timer 0\n" + c.BGPD()},
	} {
		cmd, err := frr.Command(console.Dir, d.name, d.settings)
		if err != nil {
			return err
		}
		one, err := a.spawn(a.machines+2, d.name, cmd)
		if err != nil {
			return err
		}
		a.lasting = append(a.lasting, one)
		if err := console.Await(ctx, d.name); err != nil {
			return fmt.Errorf("%w; it says: %s", err, one.tail())
		}
	}
	return nil
}

// ourAnycast is ours on every machine, announced by BGP.
func ourAnycast() rival {
	return rival{name: "holdfast", spread: true, start: func(a *arena, i int) error {
		path, err := a.write(fmt.Sprintf(`
groups:
  - name: api
    addresses: ["%s"]
    interface: lo
    anycast: {}
    announce: [bgp]
bgp:
  as: %d
  peers:
    - {address: %s, as: %d, bfd: {interval: 100ms, multiplier: 3}}
control: %s
telemetry: {listen: "%s:9389"}
`, shared, machineAS, a.routerStation().Four, routerAS, a.socket(i), a.segment.Station(i).Four), "vip-%d.yaml", i)
		if err != nil {
			return err
		}
		return a.enlist(i, "holdfast", a.y.binary, "vip", "run", "--config", path)
	}}
}

// frrAnycast is FRR on every machine, with the same timers.
func frrAnycast() rival {
	return rival{name: "FRR bgpd 8.4", spread: true, start: func(a *arena, i int) error {
		s, to := a.segment.Station(i), a.routerStation().Four
		lo, err := s.Netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		address := &netlink.Addr{IPNet: &net.IPNet{IP: shared.AsSlice(), Mask: net.CIDRMask(32, 32)}}
		if err := s.Netlink.AddrReplace(lo, address); err != nil {
			return err
		}
		c := frr.Config{BFD: fastBFD}
		return errors.Join(
			a.zebra(i), a.daemon(i, "bfdd", c.BFDD()),
			a.daemon(i, "bgpd", fmt.Sprintf(`router bgp %d
 bgp router-id %s
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor %[3]s remote-as %[4]d
 neighbor %[3]s bfd
 neighbor %[3]s bfd profile lab
 neighbor %[3]s timers connect 1
 address-family ipv4 unicast
  network %[5]s/32
 exit-address-family
`, machineAS, s.Four, to, routerAS, shared)))
	}}
}

// hops counts the router's next hops of the shared address.
func (a *arena) hops() int {
	all, err := hops.Lookup(a.routerStation().Netlink, shared)
	if err != nil {
		return 0
	}
	return len(all)
}

// spread starts a rival on all machines and waits until the router spreads over
// them and BFD watches each.
func (a *arena) spread(ctx context.Context, r rival) error {
	if err := a.reset(); err != nil {
		return err
	}
	if err := until(ctx, 40*time.Second, "the router forgets the round before", func() (bool, error) { return a.hops() == 0, nil }); err != nil {
		return err
	}
	for i := 1; i <= a.machines; i++ {
		if err := r.start(a, i); err != nil {
			return err
		}
	}
	console := frr.Console{Dir: a.path("frr-%d", a.machines+2)}
	return until(ctx, 40*time.Second, "all machines are next hops", func() (bool, error) {
		if a.hops() != a.machines {
			return false, nil
		}
		all, err := console.Sessions(ctx)
		for _, s := range all {
			if s.State != "Established" || s.BFD != "up" {
				return false, nil
			}
		}
		return err == nil && len(all) == a.machines, nil
	})
}

// bgpDeath takes a machine from a router that spreads over three.
func (y *yard) bgpDeath(ctx context.Context) ([]Row, error) {
	a, err := y.arena(3)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if err := a.router(ctx, a.routerConfig()); err != nil {
		return nil, err
	}
	s := a.routerStation()
	// By ports: or all flows would be on one machine.
	err = s.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv4/fib_multipath_hash_policy", []byte("1"), 0)
	})
	if err != nil {
		return nil, err
	}
	var clients []*caller.Caller
	for range flows {
		c, err := caller.New(s, a.segment.Station(a.machines+1), shared)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	rivals := []rival{ourAnycast(), frrAnycast()}
	died, back := make([][]*float64, len(rivals)), make([][]*float64, len(rivals))
	for range y.times(11) {
		for i, r := range rivals {
			gap, again, err := a.die(ctx, r, clients)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			died[i], back[i] = append(died[i], gap), append(back[i], again)
		}
	}
	return bgpRows(rivals, died, back), nil
}

// die silences the machine that answers the first client, and returns the
// longest outage of any, and the time from when it is back until it is a next
// hop again.
func (a *arena) die(ctx context.Context, r rival, clients []*caller.Caller) (gap, again *float64, err error) {
	defer a.stop()
	if err := a.spread(ctx, r); err != nil {
		return nil, nil, err
	}
	err = until(ctx, 10*time.Second, "every client is answered", func() (bool, error) {
		for _, c := range clients {
			if c.Since(time.Now().Add(-20*time.Millisecond)).Lost > 0 {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, nil, err
	}
	victim, begun := clients[0].Last(), time.Now()
	if err := a.segment.Station(victim).Silence(); err != nil {
		return nil, nil, err
	}
	if err := until(ctx, 40*time.Second, "the router takes it out", func() (bool, error) { return a.hops() == a.machines-1, nil }); err != nil {
		return nil, nil, err
	}
	if !pause(ctx, 500*time.Millisecond) {
		return nil, nil, ctx.Err()
	}
	longest := 0.0
	for _, c := range clients {
		longest = max(longest, ms(c.Since(begun).Gap))
	}
	begun = time.Now()
	if err := a.segment.Station(victim).Rejoin(); err != nil {
		return nil, nil, err
	}
	if err := until(ctx, time.Minute, "it is a next hop again", func() (bool, error) { return a.hops() == a.machines, nil }); err != nil {
		return nil, nil, err
	}
	again = since(begun, time.Now())
	fmt.Fprintf(os.Stderr, "bench:   %s: outage %.0f ms, back after %.0f ms, %s\n", r.name, longest, *again, load())
	return &longest, again, nil
}

func bgpRows(rivals []rival, died, back [][]*float64) []Row {
	for _, all := range [][][]*float64{died, back} {
		for i := range all {
			all[i] = sorted(all[i])
		}
	}
	row := func(name, what string, v [][]*float64, bar float64) Row {
		return within(name, "ms", middle(v[0]), bar, fmt.Sprintf("%s, median of %d; worst %s ms, peer %s ms; %s",
			what, len(v[0]), figure(last(v[0]), ""), figure(last(v[1]), ""), load())).against(rivals[1].name, middle(v[1]))
	}
	return []Row{
		row("vip-bgp-death", fmt.Sprintf("longest outage of %d flows, next hops 3 to 2 in FRR, BFD 100 ms x 3", flows), died, deathBar),
		row("vip-bgp-back", "from when it is heard again to 3 next hops", back, backBar),
	}
}
