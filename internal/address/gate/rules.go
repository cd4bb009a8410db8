package gate

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// kind is what being in a set means for an address.
type kind string

const (
	// guarded addresses are mute unless held.
	guarded kind = "guarded"
	// held addresses are open; the elements expire.
	held kind = "held"
	// permits are good for one change of held; the elements expire.
	permits kind = "permits"
	// refused and virtual addresses: see Config.
	refused kind = "refused"
	virtual kind = "virtual"
)

// rules are our three tables. Sets belong to a table, so that each has its own.
type rules struct {
	inet, arp, netdev *nftables.Table
}

func newRules(name string) *rules {
	table := func(f nftables.TableFamily) *nftables.Table { return &nftables.Table{Name: name, Family: f} }
	return &rules{inet: table(nftables.TableFamilyINet), arp: table(nftables.TableFamilyARP), netdev: table(nftables.TableFamilyNetdev)}
}

func (r *rules) tables() []*nftables.Table { return []*nftables.Table{r.inet, r.arp, r.netdev} }

// remove queues the end of our tables: adding makes the deletion succeed.
func (r *rules) remove(c *nftables.Conn) {
	for _, t := range r.tables() {
		c.AddTable(t)
		c.DelTable(t)
	}
}

// sets returns the sets of a kind that an address of this family is in, that of
// inet first.
func (r *rules) sets(k kind, six bool) []*nftables.Set {
	switch {
	case k == virtual && six:
		return nil
	case k == virtual:
		return []*nftables.Set{set(r.arp, k, six)}
	}
	all := []*nftables.Set{set(r.inet, k, six)}
	if k == permits || k == refused {
		return all
	}
	if !six {
		all = append(all, set(r.arp, k, six))
	}
	return append(all, set(r.netdev, k, six))
}

func set(t *nftables.Table, k kind, six bool) *nftables.Set {
	s := &nftables.Set{Table: t, Name: string(k) + "4", KeyType: nftables.TypeIPAddr, HasTimeout: k == held || k == permits}
	if six {
		s.Name, s.KeyType = string(k)+"6", nftables.TypeIP6Addr
	}
	return s
}

// add queues tables, sets and the rules that belong to no interface.
func (r *rules) add(c *nftables.Conn) error {
	for _, t := range r.tables() {
		c.AddTable(t)
	}
	if err := r.addSets(c, guarded, held, permits); err != nil {
		return err
	}
	// Before connection tracking and address translation, which would hide the
	// address.
	in := chain(r.inet, "prerouting", nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	out := chain(r.inet, "output", nftables.ChainHookOutput, nftables.ChainPriorityRaw)
	arp := chain(r.arp, "output", nftables.ChainHookRef(arpOutput), nftables.ChainPriorityFilter)
	for _, ch := range []*nftables.Chain{in, out, arp} {
		c.AddChain(ch)
	}
	addRules(c, []rule{
		{in, join(protocol(unix.NFPROTO_IPV4), shut(false, network(16, 4)), local())},
		{in, join(protocol(unix.NFPROTO_IPV6), shut(true, network(24, 16)), local())},
		{out, join(protocol(unix.NFPROTO_IPV4), shut(false, network(12, 4)))},
		{out, join(protocol(unix.NFPROTO_IPV6), shut(true, network(8, 16)))},
		{out, join(protocol(unix.NFPROTO_IPV6), advertisement(), shut(true, transport(8, 16)))},
		{arp, shut(false, network(14, 4))},
	})
	return nil
}

// rule drops what its expressions match.
type rule struct {
	chain *nftables.Chain
	expr  []expr.Any
}

func addRules(c *nftables.Conn, all []rule) {
	for _, r := range all {
		c.AddRule(&nftables.Rule{Table: r.chain.Table, Chain: r.chain, Exprs: join(r.expr, drop())})
	}
}

func (r *rules) addSets(c *nftables.Conn, kinds ...kind) error {
	for _, k := range kinds {
		for _, six := range []bool{false, true} {
			for _, s := range r.sets(k, six) {
				if err := c.AddSet(s, nil); err != nil {
					return fmt.Errorf("add set %s: %w", s.Name, err)
				}
			}
		}
	}
	return nil
}

// refuse queues the rules about refused addresses. They look at what is
// delivered here, after address translation: what is sent on to elsewhere is not.
func (r *rules) refuse(c *nftables.Conn) error {
	if err := r.addSets(c, refused); err != nil {
		return err
	}
	in := chain(r.inet, "input", nftables.ChainHookInput, nftables.ChainPriorityRaw)
	c.AddChain(in)
	addRules(c, []rule{
		{in, join(protocol(unix.NFPROTO_IPV4), in4(refused))},
		{in, join(protocol(unix.NFPROTO_IPV6), in6(refused), other(unix.IPPROTO_ICMPV6))},
		{in, join(protocol(unix.NFPROTO_IPV6), in6(refused), noNeighbor())},
	})
	return nil
}

// virtualise queues the rules about virtual addresses.
func (r *rules) virtualise(c *nftables.Conn, prefix string) error {
	if err := r.addSets(c, virtual); err != nil {
		return err
	}
	arp := chain(r.arp, "virtual", nftables.ChainHookRef(arpOutput), nftables.ChainPriorityFilter)
	c.AddChain(arp)
	in := chain(r.inet, "virtual", nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	c.AddChain(in)
	addRules(c, []rule{{in, join(
		[]expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte(prefix)}},
		equal(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, unix.IPPROTO_ICMPV6),
		equal(transport(0, 1), routerAdvertisement),
	)}, {arp, join(
		[]expr.Any{network(14, 4), &expr.Lookup{SourceRegister: 1, SetName: string(virtual) + "4"}},
		// The sender's hardware address stands before its IP address; that of
		// every virtual router of IPv4 begins so (RFC 9568 section 7.3).
		[]expr.Any{network(8, 5), &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{0, 0, 0x5e, 0, 1}}},
	)}})
	return nil
}

// in4 and in6 match packets to an address of a set.
func in4(k kind) []expr.Any {
	return []expr.Any{network(16, 4), &expr.Lookup{SourceRegister: 1, SetName: string(k) + "4"}}
}

func in6(k kind) []expr.Any {
	return []expr.Any{network(24, 16), &expr.Lookup{SourceRegister: 1, SetName: string(k) + "6"}}
}

// other matches packets of any protocol but one.
func other(protocol byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{protocol}},
	}
}

// noNeighbor matches ICMPv6 but for what finds neighbours.
func noNeighbor() []expr.Any {
	return join(
		equal(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, unix.IPPROTO_ICMPV6),
		[]expr.Any{
			transport(0, 1), &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{neighborSolicitation}},
			transport(0, 1), &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{neighborAdvertisement}},
		},
	)
}

func chain(t *nftables.Table, name string, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
	accept := nftables.ChainPolicyAccept
	return &nftables.Chain{Table: t, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: priority, Policy: &accept}
}

func egressChain(t *nftables.Table, name, device string) *nftables.Chain {
	ch := chain(t, name, nftables.ChainHookEgress, nftables.ChainPriorityFilter)
	ch.Device = device
	return ch
}

// hasEgress tries to hook into what leaves through lo.
func (r *rules) hasEgress(c *nftables.Conn) (bool, error) {
	ch := c.AddChain(egressChain(r.netdev, "trial", "lo"))
	c.DelChain(ch)
	err := c.Flush()
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// device queues the rules for raw sockets on an interface. They may be there,
// or half of them: a chain goes when its interface does, or stays without it,
// by the version of the kernel.
func (r *rules) device(c *nftables.Conn, iface string) {
	ch := egressChain(r.netdev, "egress-"+iface, iface)
	c.AddChain(ch)
	c.FlushChain(ch)
	for _, e := range [][]expr.Any{
		join(etherType(unix.ETH_P_ARP), shut(false, network(14, 4))),
		join(etherType(unix.ETH_P_IPV6), equal(network(6, 1), unix.IPPROTO_ICMPV6), equal(network(40, 1), neighborAdvertisement), shut(true, network(48, 16))),
	} {
		c.AddRule(&nftables.Rule{Table: r.netdev, Chain: ch, Exprs: join(e, drop())})
	}
}

const (
	routerAdvertisement   = 134
	neighborSolicitation  = 135
	neighborAdvertisement = 136
	arpOutput             = 1 // NF_ARP_OUT; the family counts its hooks on its own
)

func join(parts ...[]expr.Any) []expr.Any {
	var all []expr.Any
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func network(offset, length uint32) *expr.Payload {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length}
}

func transport(offset, length uint32) *expr.Payload {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length}
}

func equal(load expr.Any, b byte) []expr.Any {
	return []expr.Any{load, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{b}}}
}

// protocol matches the family of a packet in an inet table.
func protocol(family byte) []expr.Any {
	return equal(&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, family)
}

func etherType(t uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(t)},
	}
}

// advertisement matches a neighbor advertisement behind any extension headers.
func advertisement() []expr.Any {
	return join(
		equal(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, unix.IPPROTO_ICMPV6),
		equal(transport(0, 1), neighborAdvertisement),
	)
}

// shut matches an address that is guarded and not held.
func shut(six bool, load expr.Any) []expr.Any {
	suffix := "4"
	if six {
		suffix = "6"
	}
	return []expr.Any{
		load,
		&expr.Lookup{SourceRegister: 1, SetName: string(guarded) + suffix},
		&expr.Lookup{SourceRegister: 1, SetName: string(held) + suffix, Invert: true},
	}
}

// local matches packets for an address of this machine.
func local() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

// drop counts for whoever reads the rules in a trouble.
func drop() []expr.Any {
	return []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}}
}
