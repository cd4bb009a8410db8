package vip

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

var announcers = []string{announceARP, announceBGP, announceRoute}

const (
	announceARP   = "arp"
	announceBGP   = "bgp"
	announceRoute = "route"
)

func (g *GroupSettings) checkAnnounce() error {
	if len(g.Announce) == 0 && g.Anycast == nil {
		g.Announce = []string{announceARP}
	}
	if g.Interface == "" && g.Anycast != nil {
		g.Interface = "lo"
	}
	for i, a := range g.Announce {
		if !slices.Contains(announcers, a) || slices.Contains(g.Announce[:i], a) {
			return fmt.Errorf("announce[%d]: %q; write each of %s once at most", i, a, strings.Join(announcers, ", "))
		}
	}
	switch arp := slices.Contains(g.Announce, announceARP); {
	case g.Anycast != nil && arp:
		return errors.New("announce: arp beside anycast, and two machines would answer for one address; write bgp or route")
	case g.Anycast != nil && len(g.Announce) == 0:
		return errors.New("announce: nothing beside anycast; write bgp or route")
	}
	return nil
}

// checkRouting checks bgp and route, and that they are there for those who
// announce by them, and for nobody else.
func (s *Settings) checkRouting() error {
	for i := range s.Groups {
		if err := s.checkMeans("group "+s.Groups[i].Name, s.Groups[i].Announce); err != nil {
			return err
		}
	}
	if s.Services != nil {
		for i := range s.Services.Pools {
			if err := s.checkMeans("services.pool "+s.Services.Pools[i].Name, s.Services.Pools[i].Announce); err != nil {
				return err
			}
		}
	}
	switch {
	case s.BGP != nil && !s.announces(announceBGP):
		return errors.New("bgp: no group is announced by it; write announce: [bgp] there, or leave bgp out")
	case s.Route != nil && !s.announces(announceRoute):
		return errors.New("route: no group is announced by it; write announce: [route] there, or leave route out")
	}
	if s.BGP != nil {
		if all := s.BGP.Validate("bgp."); len(all) > 0 {
			return all[0]
		}
	}
	if s.Route != nil {
		if err := s.Route.Validate(); err != nil {
			return fmt.Errorf("route.%w", err)
		}
	}
	return nil
}

// checkMeans checks that there is what something is announced by.
func (s *Settings) checkMeans(who string, announce []string) error {
	for k, how := range announce {
		at := fmt.Sprintf("%s: announce[%d]", who, k)
		switch {
		case how == announceBGP && s.BGP == nil:
			return fmt.Errorf("%s: bgp, but there are no routers; write bgp: {as: …, peers: [{address: …, as: …}]} beside groups", at)
		case how == announceRoute && s.Route == nil:
			return fmt.Errorf("%s: route, but there is no table; write route: {table: 198} beside groups", at)
		}
	}
	return nil
}

// checkPaths compares the checks of kind bfd with one another and with the
// routers: two ends have one session.
func (s *Settings) checkPaths() error {
	seen := map[neighbor]*HealthSettings{}
	for i := range s.Groups {
		g := &s.Groups[i]
		for k := range g.Health {
			h := &g.Health[k]
			if h.Kind != kindBFD {
				continue
			}
			at := fmt.Sprintf("group %s: health[%d]", g.Name, k)
			if err := s.share(h); err != nil {
				return fmt.Errorf("%s.%w", at, err)
			}
			other := seen[h.neighbor()]
			if other != nil && other.session() != h.session() {
				return fmt.Errorf("%s.interval: %v × %d, but another check of %s has %v × %d; make them equal, there is one session",
					at, h.session().DesiredMinTx, h.session().DetectMult, h.Address, other.session().DesiredMinTx, other.session().DetectMult)
			}
			seen[h.neighbor()] = h
		}
	}
	return nil
}

// share makes a check use the session of a router, if there is one with that
// address.
func (s *Settings) share(h *HealthSettings) error {
	if s.BGP == nil {
		return nil
	}
	for i := range s.BGP.Peers {
		p := &s.BGP.Peers[i]
		a, _ := netip.ParseAddr(p.Address)
		if p.BFD == nil || a.WithZone("") != h.neighbor().address {
			continue
		}
		if h.neighbor().device == "" {
			h.Interface = peerOf(p).device
		}
		if h.neighbor() != peerOf(p) {
			continue
		}
		if h.Interval != 0 || h.Multiplier != 0 {
			return fmt.Errorf("interval: %v × %d, but bgp.peers[%d].bfd runs the session with %s; leave interval and multiplier out here", h.session().DesiredMinTx, h.session().DetectMult, i, h.Address)
		}
		return nil
	}
	return nil
}
