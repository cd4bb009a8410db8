package bgp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings are the part `bgp` of vip.yaml.
type Settings struct {
	// AS is the number of the autonomous system of this machine.
	AS uint32 `yaml:"as"`
	// RouterID is an IPv4 address that no other router has as its own
	// identifier; "" is the first address of the machine.
	RouterID string `yaml:"routerID"`
	// Listen are addresses to accept connections on, with or without a port;
	// none: connections are only made, never accepted.
	Listen []string `yaml:"listen"`
	// Shutdown says what peers are told at the end: withdraw, or gshut, which
	// asks them by community to prefer others first (RFC 8326).
	Shutdown string `yaml:"shutdown"`
	// Wait is how long the sessions stay after that; 0 is the default of
	// Shutdown.
	Wait  time.Duration  `yaml:"wait"`
	Peers []PeerSettings `yaml:"peers"`
}

// PeerSettings are one router.
type PeerSettings struct {
	Address string `yaml:"address"`
	AS      uint32 `yaml:"as"`
	Port    int    `yaml:"port"`
	// LocalAddress and Interface are where the connection comes from; "" leaves
	// them to the kernel.
	LocalAddress string `yaml:"localAddress"`
	Interface    string `yaml:"interface"`
	// PasswordFile holds the password of RFC 2385 (TCP-MD5) on its first line.
	PasswordFile string `yaml:"passwordFile"`
	// Multihop is the TTL towards an eBGP peer that is not on the link; 0: it is.
	Multihop int `yaml:"multihop"`
	// Passive waits for the peer to connect.
	Passive bool `yaml:"passive"`
	// Hold is after what silence the peer is taken for dead, Keepalive how often
	// it hears of us at least; 0 is a third of what is agreed.
	Hold      time.Duration `yaml:"hold"`
	Keepalive time.Duration `yaml:"keepalive"`
	// Families are ipv4 and ipv6; none: that of Address.
	Families []string `yaml:"families"`
	// NextHopIPv4 and NextHopIPv6 take the place of the machine's own addresses.
	NextHopIPv4      string   `yaml:"nextHopIPv4"`
	NextHopIPv6      string   `yaml:"nextHopIPv6"`
	Communities      []string `yaml:"communities"`
	LargeCommunities []string `yaml:"largeCommunities"`
	MED              *uint32  `yaml:"med"`
	// LocalPref is for iBGP peers; nil is 100.
	LocalPref *uint32 `yaml:"localPref"`
	// Prepend is how often AS stands in the path beyond the one time it has to.
	Prepend int          `yaml:"prepend"`
	BFD     *BFDSettings `yaml:"bfd"`
}

// BFDSettings are the session of BFD beside that of BGP.
type BFDSettings struct {
	Interval   time.Duration `yaml:"interval"`
	Multiplier int           `yaml:"multiplier"`
}

// What applies where the settings say nothing.
const (
	DefaultPort = 179
	// DefaultHold is shorter than FRR's 180 s, and long enough that what routers
	// lose by the way costs no session; BFD is for those who want less.
	DefaultHold = 30 * time.Second
	// Routers have taken a withdrawn route out of their kernels after some 10 ms.
	defaultWaitWithdraw = 500 * time.Millisecond
	// A router on the way may hold updates back for the MRAI, which datacenters
	// set to 0 and others leave at some seconds.
	defaultWaitShutdown = 3 * time.Second
	defaultInterval     = 100 * time.Millisecond
	defaultMultiplier   = 3
)

// config is Settings, understood.
type config struct {
	as       uint32
	routerID netip.Addr // invalid: to be found
	listen   []netip.AddrPort
	gshut    bool
	wait     time.Duration
	peers    []peerConfig
}

type peerConfig struct {
	address      netip.Addr
	port         uint16
	as, ours     uint32
	local        netip.Addr
	iface        string
	password     string
	ttl          int // 0: the kernel's
	passive      bool
	hold, keep   time.Duration
	four, six    bool
	next4, next6 netip.Addr
	communities  []uint32
	large        [][3]uint32
	med          *uint32
	pref         uint32
	prepend      int
	bfd          *BFDSettings
}

func (p *peerConfig) internal() bool { return p.as == p.ours }

// Validate returns one error a mistake, each of one line that names field,
// value and remedy; prefix stands before the fields' names.
func (s *Settings) Validate(prefix string) []error {
	_, errs := s.understand(prefix)
	return errs
}

// checker collects mistakes.
type checker struct {
	prefix string
	errs   []error
}

func (c *checker) add(field, format string, args ...any) {
	c.errs = append(c.errs, errors.New(c.prefix+field+": "+fmt.Sprintf(format, args...)))
}

func (s *Settings) understand(prefix string) (*config, []error) {
	k := &checker{prefix: prefix}
	c := &config{as: s.AS, wait: s.Wait}
	if s.AS == 0 || s.AS == 23456 || s.AS == 65535 || s.AS == 4294967295 {
		k.add("as", "%d is reserved; use the number of this machine's autonomous system, such as 65010", s.AS)
	}
	if s.RouterID != "" {
		var err error
		if c.routerID, err = netip.ParseAddr(s.RouterID); err != nil || !c.routerID.Is4() || c.routerID.IsUnspecified() {
			k.add("routerID", "%q is not an IPv4 address; use one of this machine's", s.RouterID)
		}
	}
	for i, text := range s.Listen {
		c.listen = append(c.listen, k.listener(fmt.Sprintf("listen[%d]", i), text))
	}
	switch s.Shutdown {
	case "", "withdraw":
		c.wait = cmp.Or(c.wait, defaultWaitWithdraw)
	case "gshut":
		c.gshut, c.wait = true, cmp.Or(c.wait, defaultWaitShutdown)
	default:
		k.add("shutdown", "%q is not known; use withdraw or gshut", s.Shutdown)
	}
	if s.Wait < 0 || s.Wait > time.Minute {
		k.add("wait", "%v is out of range; use 0s to 1m", s.Wait)
	}
	if len(s.Peers) == 0 {
		k.add("peers", "none; name the routers to announce to")
	}
	seen := map[netip.Addr]bool{}
	for i := range s.Peers {
		sub := &checker{prefix: fmt.Sprintf("%speers[%d].", prefix, i)}
		p := sub.peer(s.AS, &s.Peers[i])
		if p.address.IsValid() && seen[p.address] {
			sub.add("address", "%v stands twice; name each router once", p.address)
		}
		seen[p.address] = true
		c.peers = append(c.peers, p)
		k.errs = append(k.errs, sub.errs...)
	}
	return c, k.errs
}

func (k *checker) listener(field, text string) netip.AddrPort {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, DefaultPort)
	}
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		k.add(field, "%q is not an address; write 0.0.0.0 or [::]:1179", text)
	}
	return ap
}

func (k *checker) peer(as uint32, s *PeerSettings) peerConfig {
	p := peerConfig{
		as: s.AS, ours: as, port: DefaultPort, iface: s.Interface, passive: s.Passive,
		hold: cmp.Or(s.Hold, DefaultHold), keep: s.Keepalive, med: s.MED, prepend: s.Prepend,
	}
	k.where(s, &p)
	k.timers(&p)
	k.families(s, &p)
	k.path(s, &p)
	k.bfd(s, &p)
	return p
}

// where is the part about connections.
func (k *checker) where(s *PeerSettings, p *peerConfig) {
	a, err := netip.ParseAddr(s.Address)
	switch {
	case s.Address == "":
		k.add("address", "missing; name the router's address")
	case err != nil || a.IsUnspecified() || a.IsMulticast() || a.Is4In6():
		k.add("address", "%q is not the address of a router; write an IPv4 or IPv6 address", s.Address)
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "" && s.Interface == "":
		k.add("interface", "missing, but %v is link-local; name the interface it is on", a)
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		a = a.WithZone(s.Interface)
		fallthrough
	default:
		p.address = a
	}
	if len(s.Interface) > 15 {
		k.add("interface", "%q is longer than the 15 characters that a name has; correct it", s.Interface)
	}
	if s.AS == 0 || s.AS == 23456 || s.AS == 65535 || s.AS == 4294967295 {
		k.add("as", "%d is reserved; use the number that the router has", s.AS)
	}
	switch {
	case s.Port < 0 || s.Port > 65535:
		k.add("port", "%d is out of range; use 1 to 65535, or leave it out for 179", s.Port)
	case s.Port > 0:
		p.port = uint16(s.Port)
	}
	if s.LocalAddress != "" {
		p.local = k.address("localAddress", s.LocalAddress, func(a netip.Addr) bool {
			return !p.address.IsValid() || a.Is4() == p.address.Is4()
		}, "of the family of the peer's address")
	}
	switch {
	case s.Multihop < 0 || s.Multihop > 255:
		k.add("multihop", "%d is out of range; use 2 to 255, or leave it out for a router on the link", s.Multihop)
	case s.Multihop > 0:
		p.ttl = s.Multihop
	case !p.internal():
		// RFC 4271 section 5.1.3: an external peer shares a subnet.
		p.ttl = 1
	}
	p.password = k.password(s.PasswordFile)
}

// maxPassword is TCP_MD5SIG_MAXKEYLEN.
const maxPassword = 80

func (k *checker) password(file string) string {
	if file == "" {
		return ""
	}
	data, err := os.ReadFile(file)
	if err != nil {
		k.add("passwordFile", "%v; give the agent a file with the password on its first line", err)
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	line = strings.TrimRight(line, "\r")
	if line == "" || len(line) > maxPassword {
		k.add("passwordFile", "%s has %d characters on its first line; write 1 to %d", file, len(line), maxPassword)
		return ""
	}
	return line
}

func (k *checker) address(field, text string, good func(netip.Addr) bool, kind string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || a.IsUnspecified() || a.IsMulticast() || a.Is4In6() || !good(a) {
		k.add(field, "%q does not fit; write an address %s", text, kind)
		return netip.Addr{}
	}
	return a
}

func (k *checker) timers(p *peerConfig) {
	// RFC 4271 section 4.2 forbids 1 s and 2 s.
	if p.hold < 3*time.Second || p.hold > 65535*time.Second || p.hold%time.Second != 0 {
		k.add("hold", "%v is out of range; use whole seconds from 3s", p.hold)
	}
	if p.keep < 0 || p.keep > p.hold/2 {
		k.add("keepalive", "%v is not within half of hold (%v); leave it out for a third", p.keep, p.hold)
	}
}

func (k *checker) families(s *PeerSettings, p *peerConfig) {
	for i, f := range s.Families {
		switch f {
		case "ipv4":
			p.four = true
		case "ipv6":
			p.six = true
		default:
			k.add(fmt.Sprintf("families[%d]", i), "%q is not known; use ipv4 or ipv6", f)
		}
	}
	if len(s.Families) == 0 && p.address.IsValid() {
		p.four, p.six = p.address.Is4(), p.address.Is6()
	}
	if s.NextHopIPv4 != "" {
		p.next4 = k.address("nextHopIPv4", s.NextHopIPv4, netip.Addr.Is4, "of IPv4 that the router reaches")
	}
	if s.NextHopIPv6 != "" {
		p.next6 = k.address("nextHopIPv6", s.NextHopIPv6, netip.Addr.Is6, "of IPv6 that the router reaches")
	}
}

// mostCommunities of a kind fit into a message beside its routes.
const mostCommunities = 64

// path is the part about attributes.
func (k *checker) path(s *PeerSettings, p *peerConfig) {
	if len(s.Communities) > mostCommunities || len(s.LargeCommunities) > mostCommunities {
		k.add("communities", "%d and %d large ones; keep each at %d at most", len(s.Communities), len(s.LargeCommunities), mostCommunities)
		return
	}
	for i, text := range s.Communities {
		v, err := parseCommunity(text)
		if err != nil {
			k.add(fmt.Sprintf("communities[%d]", i), "%v", err)
		}
		p.communities = append(p.communities, v)
	}
	for i, text := range s.LargeCommunities {
		v, err := parseLarge(text)
		if err != nil {
			k.add(fmt.Sprintf("largeCommunities[%d]", i), "%v", err)
		}
		p.large = append(p.large, v)
	}
	p.pref = 100
	if s.LocalPref != nil {
		p.pref = *s.LocalPref
		if !p.internal() {
			k.add("localPref", "%d would not be sent: the peer is external; use med, prepend or a community that it maps to a preference", *s.LocalPref)
		}
	}
	switch {
	case s.Prepend < 0 || s.Prepend > 32:
		k.add("prepend", "%d is out of range; use 0 to 32", s.Prepend)
	case s.Prepend > 0 && p.internal():
		k.add("prepend", "%d, but the peer is internal and sees no path; use localPref or med", s.Prepend)
	}
}

func (k *checker) bfd(s *PeerSettings, p *peerConfig) {
	if s.BFD == nil {
		return
	}
	b := BFDSettings{Interval: cmp.Or(s.BFD.Interval, defaultInterval), Multiplier: cmp.Or(s.BFD.Multiplier, defaultMultiplier)}
	switch {
	case p.ttl > 1:
		k.add("bfd", "reaches one hop only, but multihop is %d; leave one of them out", p.ttl)
	case b.Interval < 10*time.Millisecond || b.Interval > time.Minute:
		k.add("bfd.interval", "%v is out of range; use 10ms to 1m", b.Interval)
	case b.Multiplier < 1 || b.Multiplier > 255:
		k.add("bfd.multiplier", "%d is out of range; use 1 to 255", b.Multiplier)
	}
	p.bfd = &b
}

// wellKnown are names of communities, as FRR writes them.
var wellKnown = map[string]uint32{
	"graceful-shutdown": graceful,   // RFC 8326
	"blackhole":         0xFFFF029A, // RFC 7999
	"no-export":         0xFFFFFF01, // RFC 1997, as are those below
	"no-advertise":      0xFFFFFF02,
	"local-as":          0xFFFFFF03,
	"no-peer":           0xFFFFFF04, // RFC 3765
}

func parseCommunity(text string) (uint32, error) {
	if v, ok := wellKnown[strings.ToLower(text)]; ok {
		return v, nil
	}
	n, err := numbers(text, 2, 16)
	if err != nil {
		names := make([]string, 0, len(wellKnown))
		for name := range wellKnown {
			names = append(names, name)
		}
		slices.Sort(names)
		return 0, fmt.Errorf("%q is not a community; write two numbers up to 65535, such as 65010:100, or %s", text, strings.Join(names, ", "))
	}
	return n[0]<<16 | n[1], nil
}

func parseLarge(text string) ([3]uint32, error) {
	n, err := numbers(text, 3, 32)
	if err != nil {
		return [3]uint32{}, fmt.Errorf("%q is not a large community; write three numbers, such as 65010:1:2", text)
	}
	return [3]uint32(n), nil
}

func numbers(text string, count, bits int) ([]uint32, error) {
	parts := strings.Split(text, ":")
	if len(parts) != count {
		return nil, strconv.ErrSyntax
	}
	var all []uint32
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, bits)
		if err != nil {
			return nil, fmt.Errorf("parse number: %w", err)
		}
		all = append(all, uint32(n))
	}
	return all, nil
}
