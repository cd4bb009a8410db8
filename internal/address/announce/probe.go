package announce

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Probing says how Probe asks. RFC 5227 section 1.1 has 3 questions 1 to 2 s
// apart and 2 s of patience, for hosts that configure themselves once; the
// defaults are shorter, because a holder asks when it starts and before it
// takes over in earnest, and a machine that is up answers in a millisecond.
type Probing struct {
	Count    int           // default 3
	Interval time.Duration // between questions, and after the last; default 200 ms
}

// Probe asks whether another station has addr and returns an *InUse if so, nil
// after Count unanswered questions. It must not be called while this machine
// holds the address, and Run has to be running. Only an answer counts: another
// station's probe is told to Options.Heard, since candidates that start
// together all ask.
func (s *Speaker) Probe(ctx context.Context, addr netip.Addr, p Probing) error {
	if p.Count <= 0 {
		p.Count = 3
	}
	if p.Interval <= 0 {
		p.Interval = 200 * time.Millisecond
	}
	answer := make(chan Heard, 1)
	if err := s.await(addr, answer); err != nil {
		return err
	}
	defer s.forget(addr, answer)
	ticker := time.NewTicker(p.Interval)
	defer ticker.Stop()
	for range p.Count {
		if err := s.ask(addr); err != nil {
			return fmt.Errorf("probe %s on %s: %w", addr, s.options.Interface, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("probe %s on %s: %w", addr, s.options.Interface, ctx.Err())
		case h := <-answer:
			return &InUse{Address: addr, MAC: h.MAC, Interface: s.options.Interface}
		case <-ticker.C:
		}
	}
	return nil
}

func (s *Speaker) ask(addr netip.Addr) error {
	mac, err := s.arp.station()
	if err != nil {
		return err
	}
	if addr.Is4() {
		return s.arp.send(ProbeFor(addr, mac).Append(nil))
	}
	return s.ndp.send(SolicitFor(addr, mac).Append(nil))
}

func (s *Speaker) await(addr netip.Addr, answer chan Heard) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[addr] = append(s.waiting[addr], answer)
	return s.listen()
}

func (s *Speaker) forget(addr netip.Addr, answer chan Heard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(s.waiting[addr], func(c chan Heard) bool { return c == answer })
	if len(rest) == 0 {
		delete(s.waiting, addr)
	} else {
		s.waiting[addr] = rest
	}
	_ = s.listen() // hearing too much does no harm
}
