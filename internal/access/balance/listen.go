package balance

import (
	"fmt"
	"os"
	"slices"

	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
)

// openListeners opens the addresses that nobody listens on yet. Those that an
// own listener is in the way of come last: it is closed just before, and
// opened again if that did not help.
func (p *process) openListeners(c *change, handed map[string]*os.File) error {
	var blocked []listenAt
	for _, f := range c.settings.Frontends {
		for _, a := range f.Listen {
			at := listenAt{frontend: f.Name, address: a, freeBind: f.FreeBind}
			switch own := p.overlapping(a); {
			case slices.Contains(own, a):
			case handed[a] != nil:
				c.fresh[a] = handed[a]
				delete(handed, a)
			case len(own) > 0:
				blocked = append(blocked, at)
			default:
				if err := c.open(at); err != nil {
					return err
				}
			}
		}
	}
	for _, at := range blocked {
		p.yield(c, p.overlapping(at.address))
		if err := c.open(at); err != nil {
			return err
		}
	}
	return nil
}

// listenAt is an address that a frontend wants.
type listenAt struct {
	frontend, address string
	freeBind          bool
}

func (c *change) open(at listenAt) error {
	file, err := relay.Listen(at.address, at.freeBind)
	if err != nil {
		return fmt.Errorf("frontend %s: listen: %w", at.frontend, err)
	}
	c.fresh[at.address] = file
	return nil
}

// overlapping lists the own listeners that have an address, or one that it
// cannot be had beside: 127.0.0.1:7445 and 0.0.0.0:7445.
func (p *process) overlapping(address string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for own := range p.listeners {
		if overlap(own, address) {
			all = append(all, own)
		}
	}
	return all
}

// yield closes own listeners. None of them is in the new settings, where no
// two addresses overlap.
func (p *process) yield(c *change, addresses []string) {
	p.mu.Lock()
	all := p.takeListeners(func(a string) bool { return slices.Contains(addresses, a) })
	p.mu.Unlock()
	for _, l := range all {
		_ = l.Close()
	}
	c.yielded = append(c.yielded, addresses...)
}

// abandon gives up a change: what was opened is closed, and what was closed
// for it is opened again.
func (p *process) abandon(c *change) {
	closeAll(c.fresh)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.settings.Frontends {
		for _, a := range s.Listen {
			if p.closing || !slices.Contains(c.yielded, a) {
				continue
			}
			file, err := relay.Listen(a, s.FreeBind)
			if err != nil {
				p.log.Error("cannot listen again; clients are refused until the settings are loaded again", "frontend", s.Name, "listen", a, keyError, err.Error())
				continue
			}
			p.listen(p.frontends[s.Name].relay(s), a, file)
		}
	}
}

// bridge has settings listen on what was handed over where that overlaps what
// they want: while the process before holds such a port, it cannot be had any
// other way. It says whether there was such an address.
func bridge(s Settings, handed map[string]*os.File) (Settings, bool) {
	bridged, used := false, map[string]bool{}
	frontends := slices.Clone(s.Frontends)
	for i, f := range frontends {
		var listen []string
		for _, want := range f.Listen {
			instead := instead(want, handed)
			if handed[want] != nil || len(instead) == 0 {
				listen = append(listen, want)
				continue
			}
			bridged = true
			for _, a := range instead {
				if !used[a] {
					used[a] = true
					listen = append(listen, a)
				}
			}
		}
		frontends[i].Listen = listen
	}
	s.Frontends = frontends
	return s, bridged
}

// instead lists the sockets handed over that overlap an address.
func instead(want string, handed map[string]*os.File) []string {
	var all []string
	for a := range handed {
		if overlap(a, want) {
			all = append(all, a)
		}
	}
	slices.Sort(all)
	return all
}

func closeAll(files map[string]*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
