package vrrp

import (
	"fmt"
	"net/netip"
	"time"
)

// ownerPriority is the priority of the router whose own address the virtual
// one is (RFC 9568 section 5.2.4).
const ownerPriority = 255

// Config is what one virtual router needs to know. Validate it before New.
type Config struct {
	VRID    uint8 // 1 to 255
	Version int   // 3, or 2 with IPv4
	Family  Family
	// Priority is 1 to 254, or 255 together with Owner.
	Priority uint8
	// Interval between our adverts when we are active: 10 ms to 40.95 s in
	// steps of 10 ms, whole seconds up to 255 in version 2.
	Interval time.Duration
	// Preempt lets us take over from a holder of lower priority. Without it
	// the holder keeps the address until it falls silent, resigns, or its
	// priority falls (see Stay).
	Preempt bool
	// PreemptDelay is how long a holder of lower priority is heard before it
	// is preempted.
	PreemptDelay time.Duration
	// StartDelay is how long after Start we only listen.
	StartDelay time.Duration
	// Stay leaves a holder alone whose priority has fallen below ours since it
	// took the address. Otherwise that counts as a request to be relieved,
	// even without Preempt: its health check has taken the weight off.
	Stay bool
	// Accept is for the shell: whether packets to the addresses are delivered
	// to this machine, or only forwarded through it (RFC 9568 section 6.1).
	Accept bool
	// Owner says that the addresses are this machine's own. It starts active
	// and its priority is 255, always (RFC 9568 section 6.4.1), so it needs
	// Preempt.
	Owner bool
	// Address is our primary address on the interface, link-local with IPv6:
	// the source of our adverts, which decides between equal priorities.
	// See SetAddress.
	Address netip.Addr
	// Addresses of the virtual router, as they go into adverts.
	Addresses []netip.Addr
	// PlainChecksum: see Advert.
	PlainChecksum bool
	// Linger bounds how long we answer after having resigned. Zero means the
	// longest that a backup may wait once it hears us resign, with a quarter
	// to spare, and no less than 1 s: max(1 s, 5/4 Interval).
	Linger time.Duration
}

// linger returns the bound with its default.
func (c *Config) linger() time.Duration {
	if c.Linger > 0 {
		return c.Linger
	}
	return max(time.Second, c.Interval+c.Interval/4)
}

// Validate returns the first mistake in one line: field, value, remedy.
func (c *Config) Validate() error {
	switch {
	case c.VRID == 0:
		return fmt.Errorf("vrid 0: set 1 to 255, the same on every router of the address")
	case c.Version != 2 && c.Version != 3:
		return fmt.Errorf("version %d: set 3, or 2 for peers that know no other", c.Version)
	case c.Family != IPv4 && c.Family != IPv6:
		return fmt.Errorf("family %d: set 4 or 6", c.Family)
	case c.Version == 2 && c.Family == IPv6:
		return fmt.Errorf("version 2: carries IPv4 only; set version 3 for IPv6")
	case c.Priority == 0:
		return fmt.Errorf("priority 0: set 1 to 254; 0 is what a router that resigns sends")
	case c.Priority == ownerPriority && !c.Owner:
		return fmt.Errorf("priority 255: is the owner's; set 254, or owner if the address is this machine's own")
	case c.Owner && c.Priority != ownerPriority:
		return fmt.Errorf("owner: has priority 255, not %d; set 255 or leave owner out", c.Priority)
	case c.Owner && !c.Preempt:
		return fmt.Errorf("owner without preempt: an owner always takes its address; set preempt, or leave owner out")
	}
	if err := checkInterval(c.Version, c.Interval); err != nil {
		return err
	}
	if err := c.checkDelays(); err != nil {
		return err
	}
	return c.checkAddresses()
}

func (c *Config) checkDelays() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"preemptDelay", c.PreemptDelay}, {"startDelay", c.StartDelay}, {"linger", c.Linger}} {
		if d.value < 0 || d.value > time.Hour {
			return fmt.Errorf("%s %s: set 0s to 1h", d.field, d.value)
		}
	}
	return nil
}

func (c *Config) checkAddresses() error {
	if len(c.Addresses) == 0 || len(c.Addresses) > maxAddresses {
		return fmt.Errorf("addresses: %d of them; an advert carries 1 to %d", len(c.Addresses), maxAddresses)
	}
	seen := map[netip.Addr]bool{}
	for _, a := range c.Addresses {
		if !c.Family.has(a) || a.IsMulticast() || a.IsUnspecified() || a.Zone() != "" {
			return fmt.Errorf("addresses: %s cannot be held as an IPv%d address; name a unicast one, without a zone", a, c.Family)
		}
		if seen[a] {
			return fmt.Errorf("addresses: %s is listed twice; list it once", a)
		}
		seen[a] = true
	}
	if c.Address.IsValid() && !c.Family.has(c.Address) {
		return fmt.Errorf("address %s: adverts are sent over IPv%d; name the interface's primary address of that family", c.Address, c.Family)
	}
	return nil
}
