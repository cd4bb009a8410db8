package vip

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// defaultSettings is what an empty file means, but for what stands in lists.
func defaultSettings() Settings {
	return Settings{
		Table: defaultTable, Control: defaultControl, Realtime: true,
		Telemetry: telemetry.Settings{Listen: defaultTelemetry},
		Log:       telemetry.Log{Level: "info", Format: "text"},
	}
}

// word is what may be a name: in labels, in file names, in the record's key.
var word = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// complete checks what a person wrote and fills in what was left out. It looks
// at no interface: those may come later.
func (s *Settings) complete() error {
	if err := s.completeServices(); err != nil {
		return err
	}
	if len(s.Groups) == 0 && s.Services == nil {
		return errors.New("groups: none; write at least one, with name, addresses and one of vrrp, lease, anycast; or services")
	}
	if !regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]{0,30}$`).MatchString(s.Table) {
		return fmt.Errorf("table: %q cannot be the name of an nftables table; write letters, digits and _", s.Table)
	}
	if s.Control != "" && !filepath.IsAbs(s.Control) {
		return fmt.Errorf("control: %q is no absolute path; write one, or \"\" for none", s.Control)
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		if !word.MatchString(g.Name) {
			return fmt.Errorf("groups[%d].name: %q; write a name of small letters, digits, dots and dashes", i, g.Name)
		}
		if err := g.complete(); err != nil {
			return fmt.Errorf("group %s: %w", g.Name, err)
		}
	}
	for _, check := range []func() error{s.checkTogether, s.checkRouting, s.checkPaths} {
		if err := check(); err != nil {
			return err
		}
	}
	return s.Telemetry.Check()
}

// checkTogether finds groups that would be in each other's way.
func (s *Settings) checkTogether() error {
	names, held := map[string]bool{}, map[netip.Addr]string{}
	routers := map[string]string{}
	for i := range s.Groups {
		g := &s.Groups[i]
		if names[g.Name] {
			return fmt.Errorf("groups[%d].name: %q is there twice; name each group once", i, g.Name)
		}
		names[g.Name] = true
		for _, a := range g.addresses {
			if other := held[a]; other != "" {
				return fmt.Errorf("group %s: addresses: %s is in group %s as well; one group may have it", g.Name, a, other)
			}
			held[a] = g.Name
		}
		if g.VRRP == nil {
			continue
		}
		for _, f := range g.families() {
			key := fmt.Sprint(g.Interface, g.VRRP.VRID, f)
			if other := routers[key]; other != "" {
				return fmt.Errorf("group %s: vrrp.vrid: %d is that of group %s on the same interface; choose another", g.Name, g.VRRP.VRID, other)
			}
			routers[key] = g.Name
		}
	}
	return nil
}

func (g *GroupSettings) complete() error {
	if err := g.checkAddresses(); err != nil {
		return err
	}
	kinds := 0
	for _, set := range []bool{g.VRRP != nil, g.Lease != nil, g.Anycast != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("%d of vrrp, lease and anycast; write exactly one", kinds)
	}
	for _, check := range []func() error{g.checkVRRP, g.checkLease, g.checkAnnounce} {
		if err := check(); err != nil {
			return err
		}
	}
	for i := range g.Health {
		if err := g.Health[i].complete(g.VRRP != nil); err != nil {
			return fmt.Errorf("health[%d].%w", i, err)
		}
	}
	for i := range g.Hooks {
		if err := g.Hooks[i].complete(); err != nil {
			return fmt.Errorf("hooks[%d].%w", i, err)
		}
	}
	return nil
}

func (g *GroupSettings) checkAddresses() error {
	if len(g.Addresses) == 0 {
		return errors.New("addresses: none; write what others are to reach this group at")
	}
	g.addresses = nil
	for i, text := range g.Addresses {
		a, err := netip.ParseAddr(text)
		a = a.Unmap()
		switch {
		case err != nil || a.Zone() != "":
			return fmt.Errorf("addresses[%d]: %q is not an IP address; write one without a prefix length or zone", i, text)
		case a.IsLoopback() || a.IsUnspecified() || a.IsMulticast():
			return fmt.Errorf("addresses[%d]: %s cannot be held; write a unicast address of the interface's network", i, text)
		case slices.Contains(g.addresses, a):
			return fmt.Errorf("addresses[%d]: %s is there twice; keep one", i, text)
		}
		g.addresses = append(g.addresses, a)
	}
	return nil
}

// families of the addresses, IPv4 first.
func (g *GroupSettings) families() []vrrp.Family {
	var all []vrrp.Family
	for _, f := range []vrrp.Family{vrrp.IPv4, vrrp.IPv6} {
		if len(g.of(f)) > 0 {
			all = append(all, f)
		}
	}
	return all
}

// of returns the addresses of a family.
func (g *GroupSettings) of(f vrrp.Family) []netip.Addr {
	var all []netip.Addr
	for _, a := range g.addresses {
		if a.Is4() == (f == vrrp.IPv4) {
			all = append(all, a)
		}
	}
	return all
}

func (g *GroupSettings) checkVRRP() error {
	v := g.VRRP
	if v == nil {
		return nil
	}
	v.Version = cmp.Or(v.Version, 3)
	v.Priority = cmp.Or(v.Priority, defaultPriority)
	if v.Interval == 0 {
		v.Interval = defaultInterval
		if v.Version == 2 {
			v.Interval = time.Second
		}
	}
	if v.VRID < 1 || v.VRID > 255 {
		return fmt.Errorf("vrrp.vrid %d: set 1 to 255, the same on every router of the address", v.VRID)
	}
	if v.Priority < 1 || v.Priority > 254 {
		return fmt.Errorf("vrrp.priority %d: set 1 to 254", v.Priority)
	}
	if v.Sync != "" && !word.MatchString(v.Sync) {
		return fmt.Errorf("vrrp.sync: %q; write a name of small letters, digits, dots and dashes", v.Sync)
	}
	v.peers = nil
	for i, text := range v.Peers {
		a, err := netip.ParseAddr(text)
		if err != nil || a.IsMulticast() || a.IsUnspecified() {
			return fmt.Errorf("vrrp.peers[%d]: %q is not the address of a machine; write one, or leave peers out for multicast", i, text)
		}
		v.peers = append(v.peers, a.Unmap())
	}
	for _, f := range g.families() {
		c := g.router(f)
		if err := c.Validate(); err != nil {
			return fmt.Errorf("vrrp.%w", err)
		}
		if len(v.peers) > 0 && len(v.of(f)) == 0 {
			return fmt.Errorf("vrrp.peers: none of IPv%d, of which there are addresses; name every peer's address of both families", f)
		}
	}
	return nil
}

// of returns the peers of a family.
func (v *VRRPSettings) of(f vrrp.Family) []netip.Addr {
	var all []netip.Addr
	for _, a := range v.peers {
		if a.Is4() == (f == vrrp.IPv4) {
			all = append(all, a)
		}
	}
	return all
}

// router is the configuration of the virtual router of one family.
func (g *GroupSettings) router(f vrrp.Family) vrrp.Config {
	v := g.VRRP
	return vrrp.Config{
		VRID: uint8(v.VRID), Version: v.Version, Family: f, Priority: uint8(v.Priority), Interval: v.Interval,
		Preempt: v.Preempt, PreemptDelay: v.PreemptDelay, StartDelay: v.StartDelay, Stay: v.Stay,
		Accept: v.accepts(), Addresses: g.of(f),
	}
}

func (v *VRRPSettings) accepts() bool { return v.Accept == nil || *v.Accept }

func (g *GroupSettings) checkLease() error {
	l := g.Lease
	if l == nil {
		return nil
	}
	l.Policy = cmp.Or(l.Policy, lease.Keep.String())
	if l.Self == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("lease.self: not set, and the host has no name (%w); write one of the names in peers", err)
		}
		l.Self = strings.ToLower(name)
	}
	if (l.Kubernetes == nil) == (l.Etcd == nil) {
		return errors.New("lease: write exactly one of kubernetes and etcd")
	}
	if k := l.Kubernetes; k != nil {
		k.Namespace, k.Name = cmp.Or(k.Namespace, "kube-system"), cmp.Or(k.Name, "holdfast-vip-"+g.Name)
	}
	if e := l.Etcd; e != nil {
		e.Record = cmp.Or(e.Record, "/holdfast/vip/"+g.Name)
		if len(e.Endpoints) == 0 {
			return errors.New("lease.etcd.endpoints: none; write the client URLs of the members")
		}
	}
	c, err := l.config()
	if err != nil {
		return fmt.Errorf("lease.%w", err)
	}
	c.Incarnation = 1
	if err := c.Check(); err != nil {
		return fmt.Errorf("lease.%w", err)
	}
	return nil
}

// config is that of package lease, but for what is random.
func (l *LeaseSettings) config() (lease.Config, error) {
	policy, err := lease.ParsePolicy(l.Policy)
	if err != nil {
		return lease.Config{}, err
	}
	c := lease.Config{Self: l.Self, Duration: l.Duration, Policy: policy}
	for i, p := range l.Peers {
		a, err := netip.ParseAddrPort(p.Address)
		if err != nil {
			return c, fmt.Errorf("peers[%d].address: %q; write ADDRESS:PORT", i, p.Address)
		}
		c.Peers = append(c.Peers, lease.Peer{Name: p.Name, Address: a})
	}
	return c, nil
}
