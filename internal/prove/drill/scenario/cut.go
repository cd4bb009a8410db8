package scenario

import (
	"fmt"
	"slices"
)

// KindConnect is a TCP handshake with the apiserver of a site.
const KindConnect = "connect"

// checkDetour refuses a cut with via that is none.
func (c *Case) checkDetour(cut Cut) error {
	for _, end := range [][2]string{{"from", cut.From}, {"to", cut.To}, {"via", cut.Via}} {
		if err := oneOf(end[0], end[1], c.SiteNames()); err != nil {
			return err
		}
	}
	if cut.From == cut.To || cut.Via == cut.From || cut.Via == cut.To {
		return fmt.Errorf("via: %q does not lie beside %q and %q; a detour joins two sites through a third", cut.Via, cut.From, cut.To)
	}
	if cut.State != "" || cut.Proto != "" || cut.Action != "" || len(cut.Ports) > 0 || cut.OneWay {
		return fmt.Errorf("via: %q turns every packet one way; leave out state, proto, ports, action and oneWay", cut.Via)
	}
	return nil
}

// checkConnect refuses a handshake with what is no apiserver.
func (c *Case) checkConnect(at string, p Path) error {
	if p.Kind != KindConnect {
		return nil
	}
	if !c.APIServers {
		return fmt.Errorf("%s.kinds: connect has no apiserver to ask; add apiservers: true", at)
	}
	if slices.Contains(roles, p.Target) {
		return fmt.Errorf("%s.targets: %s is no site, whose apiserver connect asks; choose one of %v", at, p.Target, c.SiteNames())
	}
	return nil
}
