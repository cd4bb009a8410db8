package drill

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// echoes is how many echoes tell the round trip of a link: the shortest counts, for
// what a busy machine adds is never negative.
const echoes = 5

// echoPortOfNodes is the port at which every node of a lab echoes (RFC 862).
const echoPortOfNodes = 7

// slowDown makes the links of a step worse and measures what a delay does to their
// round trip. Loss and rate are the lab's own matter, whose tests measure both.
func (e *engine) slowDown(ctx context.Context, s scenario.Step) error {
	for _, slow := range s.Slow {
		link, err := e.linkOf(slow)
		if err != nil {
			return err
		}
		before, err := e.roundTrip(ctx, slow)
		if err != nil {
			return err
		}
		if e.links == nil {
			e.links = map[string]lab.Link{}
		}
		e.links[link.A+"-"+link.B] = link
		if err := e.lab.Delay(ctx, worse(link, slow)); err != nil {
			return fmt.Errorf("slow %s–%s: %w", slow.From, slow.To, err)
		}
		after, err := e.roundTrip(ctx, slow)
		if err != nil {
			return err
		}
		// A loss or a rate adds none, and chance alone tells the two apart.
		if added := 2 * slow.Delay; added > 0 && after-before < added*9/10 {
			return fmt.Errorf("slow %s–%s is not in force: a round trip takes %v, before it took %v", slow.From, slow.To, after, before)
		}
	}
	return nil
}

// quicken gives the links of a step their properties back.
func (e *engine) quicken(ctx context.Context, s scenario.Step) error {
	for _, slow := range s.Slow {
		link, err := e.linkOf(slow)
		if err != nil {
			return err
		}
		was, ok := e.links[link.A+"-"+link.B]
		if !ok {
			continue
		}
		if err := e.lab.Delay(ctx, was); err != nil {
			return fmt.Errorf("slow %s–%s: %w", slow.From, slow.To, err)
		}
		delete(e.links, link.A+"-"+link.B)
	}
	return nil
}

// worse is a link with a fault on top.
func worse(l lab.Link, s scenario.Slow) lab.Link {
	l.Delay += s.Delay
	l.Jitter += s.Jitter
	l.Loss = 1 - (1-l.Loss)*(1-s.Loss)
	if rate := s.Mbit * 1_000_000; rate > 0 && (l.Rate == 0 || rate < l.Rate) {
		l.Rate = rate
	}
	return l
}

// linkOf is the link between two sites as it is now.
func (e *engine) linkOf(s scenario.Slow) (lab.Link, error) {
	from, to := siteOf(s.From), siteOf(s.To)
	for _, l := range e.lab.Links() {
		if l.A == from && l.B == to || l.A == to && l.B == from {
			return l, nil
		}
	}
	return lab.Link{}, fmt.Errorf("slow: no link joins %s and %s", from, to)
}

// roundTrip is the shortest of some echoes between the first nodes of two sites.
func (e *engine) roundTrip(ctx context.Context, s scenario.Slow) (time.Duration, error) {
	x, err := e.lab.Node(siteOf(s.From) + "1")
	if err != nil {
		return 0, err
	}
	y, err := e.lab.Node(siteOf(s.To) + "1")
	if err != nil {
		return 0, err
	}
	least, failed := time.Duration(0), error(nil)
	for range echoes {
		took, err := dialled(ctx, x, net.JoinHostPort(y.IP().String(), strconv.Itoa(echoPortOfNodes)), 2*(s.Delay+s.Jitter)+3*time.Second)
		switch {
		case err != nil:
			failed = err // a lossy link may lose one
		case least == 0 || took < least:
			least = took
		}
	}
	if least == 0 {
		return 0, fmt.Errorf("measure the round trip %s–%s: %w", s.From, s.To, failed)
	}
	return least, nil
}

// dialled is how long a connection takes: one round trip.
func dialled(ctx context.Context, from *lab.Node, addr string, patience time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	start := time.Now()
	conn, err := from.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, conn.Close()
}
