package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// reachTime is a SYN and two repetitions (1 s and 2 s later).
const reachTime = 4 * time.Second

// tries is how many connections tell how long one takes: the fastest counts, for what
// a busy machine adds is never negative.
const tries = 5

var errNoForward = errors.New("its SSH server forbids AllowTcpForwarding")

// proof is a probe in the course of a run.
type proof struct {
	Probe
	// before is how long a connection took while nothing was broken.
	before time.Duration
	// kept is an SSH connection from one host to the other that is older than the
	// cut, nil where the probe needs none.
	kept *ssh.Client
}

func (p *proof) close() {
	if p.kept != nil {
		_ = p.kept.Close()
	}
}

// dial has the first host of a probe dial the second, through its SSH server, so
// that nothing has to be installed on it. A refusal by policy is [errNoForward].
func (c *Controller) dial(ctx context.Context, p Probe) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	to := c.Inventory.host(p.To)
	port := strconv.Itoa(int(p.Port))
	if p.Port == 0 {
		_, port, _ = net.SplitHostPort(to.SSH)
	}
	conn, err := c.sessions[p.From].client.DialContext(ctx, "tcp", net.JoinHostPort(to.Address.String(), port))
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) && refused.Reason == ssh.Prohibited {
		return nil, errNoForward
	}
	return conn, err
}

func (c *Controller) probe(ctx context.Context, p Probe) error {
	conn, err := c.dial(ctx, p)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// fastest is how long the fastest of some connections took.
func (c *Controller) fastest(ctx context.Context, p Probe) (time.Duration, error) {
	least := time.Duration(0)
	var failed error
	for range tries {
		start := time.Now()
		if err := c.probe(ctx, p); err != nil {
			failed = err // with losses one may fail
			continue
		}
		if took := time.Since(start); least == 0 || took < least {
			least = took
		}
	}
	if least == 0 {
		return 0, failed
	}
	return least, nil
}

// keep logs in from one host at the other.
func (c *Controller) keep(ctx context.Context, p Probe) (*ssh.Client, error) {
	conn, err := c.dial(ctx, p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return login(ctx, conn, c.Inventory.host(p.To), c.Inventory.KnownHosts)
}

// steady keeps the probes that get through before anything is broken; the others
// could not tell a fault from what else stands in their way.
func (c *Controller) steady(ctx context.Context) {
	for _, p := range c.Plan.Probes {
		f := &proof{Probe: p}
		var err error
		switch {
		case p.Proto != "":
		case p.Slow:
			f.before, err = c.fastest(ctx, p)
		case p.State != "" && p.State != "all" && p.Port == 0:
			f.kept, err = c.keep(ctx, p)
		default:
			err = c.probe(ctx, p)
		}
		if err != nil {
			c.doubt("the cut between %s and %s cannot be measured: before it already %s cannot dial: %v", p.From, p.To, p.From, err)
			continue
		}
		c.proofs = append(c.proofs, f)
	}
}

// verify measures that the fault of a step is there.
func (c *Controller) verify(ctx context.Context, step int) {
	for _, p := range c.proofs {
		if p.Step != step {
			continue
		}
		if why := c.missing(ctx, p); why != "" {
			c.doubt("%s %s", c.Plan.Steps[step].Name, why)
		}
	}
}

// missing says why a fault is not in force, "" when it is. What only counters can
// tell is left to count.
func (c *Controller) missing(ctx context.Context, p *proof) string {
	switch {
	case p.Proto != "":
		c.poke(ctx, p)
		return ""
	case p.Slow:
		return c.fast(ctx, p)
	case p.State == "established":
		return c.older(ctx, p)
	}
	switch err := c.probe(ctx, p.Probe); {
	case err == nil:
		return fmt.Sprintf("is not in force: %s still reaches %s", p.From, p.To)
	case !unanswered(err):
		return fmt.Sprintf("was not measured to be in force: %v", err)
	case p.kept != nil && alive(ctx, p.kept, reachTime) != nil:
		return fmt.Sprintf("takes more than what begins anew: a connection from %s to %s that is older broke", p.From, p.To)
	}
	return ""
}

// older wants a new connection to get through and one that is older to be silent.
func (c *Controller) older(ctx context.Context, p *proof) string {
	if err := c.probe(ctx, p.Probe); err != nil {
		return fmt.Sprintf("takes more than connections that are older: %s cannot dial %s: %v", p.From, p.To, err)
	}
	if p.kept != nil && alive(ctx, p.kept, reachTime) == nil {
		return fmt.Sprintf("is not in force: an older connection from %s to %s still answers", p.From, p.To)
	}
	return ""
}

// fast wants connections to take longer by the round trip that was added.
func (c *Controller) fast(ctx context.Context, p *proof) string {
	took, err := c.fastest(ctx, p.Probe)
	switch {
	case err != nil:
		return fmt.Sprintf("was not measured to be in force: %v", err)
	case !shows(p.before, took, p.Slower):
		return fmt.Sprintf("is not in force: %s connects to %s in %v, before it was %v", p.From, p.To, round(took), round(p.before))
	}
	return ""
}

// shows says whether a connection got slower by a round trip that was added. None was
// added by a loss or a rate, where chance alone tells the two apart.
func shows(before, took, added time.Duration) bool {
	return added == 0 || took-before >= added*9/10
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// poke has a host send a datagram that the cut must take. The shell of some hosts
// cannot; there the packets of others are counted.
func (c *Controller) poke(ctx context.Context, p *proof) {
	port := p.Port
	if p.Proto == "vxlan" {
		port = vxlanPort
	}
	if port == 0 {
		port = 9 // discard
	}
	to := c.Inventory.host(p.To)
	_, _ = c.sessions[p.From].run(ctx, fmt.Sprintf("bash -c 'echo holdfast >/dev/udp/%s/%d' 2>/dev/null\necho sent\n", to.Address, port), "sent")
}

// vxlanPort is that of RFC 7348.
const vxlanPort = 4789

// count reads how many packets the rules of a step saw and took, before it ends. A
// rule that nothing else measured must have taken some.
func (c *Controller) count(ctx context.Context, step int) {
	s := c.Plan.Steps[step]
	seen, taken, hosts := 0, 0, 0
	for _, h := range c.Plan.hosts(c.Inventory) {
		ops := s.on(h.Name)
		if !slices.ContainsFunc(ops, Operation.tabled) {
			continue
		}
		out, err := c.sessions[h.Name].run(ctx, counting(h, ops), "counted")
		if err != nil {
			c.doubt("%s: the packets that it took cannot be counted: %v", s.Name, err)
			return
		}
		a, b := counters(out)
		seen, taken, hosts = seen+a, taken+b, hosts+1
	}
	if hosts == 0 {
		return
	}
	c.say("%s took %d packets", s.Name, seen+taken)
	for _, p := range c.proofs {
		blind := p.Proto != "" || p.State == "established" && p.kept == nil || p.Slow && p.Slower == 0
		if p.Step == step && blind && seen+taken == 0 {
			c.doubt("%s was not measured to be in force: no packet met its rules; have something send between %s and %s", s.Name, p.From, p.To)
		}
	}
}

// counters sums those of nft's listing: of rules that only sort packets, and of those
// that take them.
func counters(listing string) (seen, taken int) {
	for line := range strings.Lines(listing) {
		words := strings.Fields(line)
		i := slices.Index(words, "packets")
		if i < 1 || words[i-1] != "counter" || i+1 >= len(words) {
			continue
		}
		n, err := strconv.Atoi(words[i+1])
		if err != nil {
			continue
		}
		if slices.Contains(words, "drop") || slices.Contains(words, "reject") {
			taken += n
		} else {
			seen += n
		}
	}
	return seen, taken
}

// whole wants every probe to get through again, as fast as before.
func (c *Controller) whole(ctx context.Context) {
	for _, p := range c.proofs {
		if p.Proto != "" {
			continue
		}
		took, err := c.fastest(ctx, p.Probe)
		switch {
		case err != nil:
			c.doubt("after the heal %s does not reach %s: %v", p.From, p.To, err)
		case p.Slower > 0 && took-p.before > p.Slower/2:
			c.doubt("after the heal %s connects to %s in %v, before it was %v", p.From, p.To, round(took), round(p.before))
		}
	}
}

// unanswered tells a host that could not connect from one that could not be asked.
func unanswered(err error) bool {
	var refused *ssh.OpenChannelError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &refused) && refused.Reason == ssh.ConnectionFailed
}
