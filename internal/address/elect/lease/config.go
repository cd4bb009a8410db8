package lease

import (
	"fmt"
	"net/netip"
	"time"
)

// Policy is what a holder does that does not reach the API.
type Policy uint8

const (
	// Keep holds on while every peer that the record names says, again and again,
	// that it does not reach the API either.
	Keep Policy = iota
	// Drop lets go when the lease runs out.
	Drop
)

func (p Policy) String() string {
	if p == Drop {
		return "drop"
	}
	return "keep"
}

// ParsePolicy reads "keep" or "drop".
func ParsePolicy(s string) (Policy, error) {
	switch s {
	case "keep":
		return Keep, nil
	case "drop":
		return Drop, nil
	}
	return 0, fmt.Errorf("policy %.20q: want keep or drop", s)
}

// Peer is one that may hold the address.
type Peer struct {
	// Name is the node's, 1 to 63 bytes.
	Name string
	// Address is where it hears questions.
	Address netip.AddrPort
}

const (
	// DefaultDuration has a silent holder replaced within 3 s: 2.5 s after its last
	// renewal was seen, and one write.
	DefaultDuration = 2500 * time.Millisecond
	// MinDuration leaves the margin, 30 ms, longer than a write to a good etcd and
	// a late timer take.
	MinDuration = 300 * time.Millisecond
	// MaxDuration bounds what a record may ask others to wait.
	MaxDuration = time.Minute
	// DefaultLinger bounds how long the old holder answers beside its successor.
	DefaultLinger = time.Second
)

// Config is one contender for one address.
type Config struct {
	// Self is the name of this peer; Peers must have it.
	Self string
	// Peers are those that may hold the address; a holder writes them into the
	// record, and only those in the record take it over.
	Peers []Peer
	// Duration is how long the others wait for a renewal; 0 means DefaultDuration.
	// Everybody should have the same; where they differ, the longer one counts.
	Duration time.Duration
	// Renew is the time between renewals; 0 means two fifths of Duration.
	Renew time.Duration
	// Margin is the part of Duration that the holder does not use, for clocks that
	// run at different rates and for the time between a decision and the kernel's
	// hand; 0 means a tenth of Duration.
	Margin time.Duration
	// Linger is how long a holder that gave the address away answers for it at
	// most; 0 means DefaultLinger.
	Linger time.Duration
	// Policy when the API is lost.
	Policy Policy
	// Incarnation differs from process to process; never 0.
	Incarnation uint64
	// Key signs what peers say to each other. Without one the record's is used,
	// which is FreshKey of whoever created it.
	Key, FreshKey []byte
}

// WithDefaults returns c with what was left out.
func (c Config) WithDefaults() Config {
	if c.Duration == 0 {
		c.Duration = DefaultDuration
	}
	if c.Renew == 0 {
		c.Renew = c.Duration * 2 / 5
	}
	if c.Margin == 0 {
		c.Margin = c.Duration / 10
	}
	if c.Linger == 0 {
		c.Linger = DefaultLinger
	}
	return c
}

// Check names the first field that cannot be worked with, its value and the remedy.
func (c Config) Check() error {
	c = c.WithDefaults()
	switch {
	case c.Self == "" || len(c.Self) > 63:
		return fmt.Errorf("self %.70q: want a name of 1 to 63 bytes", c.Self)
	case c.Duration < MinDuration || c.Duration > MaxDuration:
		return fmt.Errorf("duration %s: want %s to %s", c.Duration, MinDuration, MaxDuration)
	case c.Margin < c.Duration/20 || c.Margin > c.Duration*3/10:
		return fmt.Errorf("margin %s: want 5 to 30 %% of duration %s", c.Margin, c.Duration)
	case c.Renew < c.Duration/10 || c.Renew > c.Duration*2/5:
		return fmt.Errorf("renew %s: want 10 to 40 %% of duration %s, or peers take a late renewal for a lost API", c.Renew, c.Duration)
	case c.Linger < 0 || c.Linger > DefaultLinger:
		return fmt.Errorf("linger %s: want at most %s", c.Linger, DefaultLinger)
	case c.Policy > Drop:
		return fmt.Errorf("policy %d: want keep or drop", c.Policy)
	case c.Incarnation == 0:
		return fmt.Errorf("incarnation 0: want a random number")
	}
	return c.checkPeers()
}

func (c Config) checkPeers() error {
	seen := map[string]bool{}
	for i, p := range c.Peers {
		switch {
		case p.Name == "" || len(p.Name) > 63:
			return fmt.Errorf("peers[%d].name %.70q: want 1 to 63 bytes", i, p.Name)
		case seen[p.Name]:
			return fmt.Errorf("peers[%d].name %q: there already; name each peer once", i, p.Name)
		case !p.Address.IsValid() || p.Address.Port() == 0:
			return fmt.Errorf("peers[%d].address %q: want ADDRESS:PORT", i, p.Address)
		}
		seen[p.Name] = true
	}
	if !seen[c.Self] {
		return fmt.Errorf("peers: %q itself is missing; add it", c.Self)
	}
	return nil
}

// term is how long this holder may hold after it sent a write.
func (c *Config) term() time.Duration { return c.Duration - c.Margin }
