package vip

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/address/services"
)

// ServicesSettings are about Services of type LoadBalancer.
type ServicesSettings struct {
	Kubernetes ServicesAPISettings `yaml:"kubernetes"`
	// Node is this machine's name in Kubernetes; "" is the host's.
	Node string `yaml:"node"`
	// Class is spec.loadBalancerClass of the Services looked after; "" are those
	// without one.
	Class string `yaml:"class"`
	// Interface has the addresses; "" is that of the route to the first.
	Interface string                `yaml:"interface"`
	Pools     []PoolSettings        `yaml:"pools"`
	Lease     ServicesLeaseSettings `yaml:"lease"`
	// Health takes this machine out for all Services.
	Health []HealthSettings `yaml:"health"`
}

// ServicesAPISettings say how the API is reached.
type ServicesAPISettings struct {
	Servers    []string `yaml:"servers"`
	Kubeconfig string   `yaml:"kubeconfig"`
	Context    string   `yaml:"context"`
	// Namespace of the Leases.
	Namespace string `yaml:"namespace"`
}

// PoolSettings are addresses for Services; see services.Pool.
type PoolSettings struct {
	Name            string            `yaml:"name"`
	Addresses       []string          `yaml:"addresses"`
	AutoAssign      *bool             `yaml:"autoAssign"`
	Namespaces      []string          `yaml:"namespaces"`
	ServiceSelector map[string]string `yaml:"serviceSelector"`
	// Announce says how: with arp one machine answers, and tells routers too where
	// bgp or route stand beside it. Without arp all machines do.
	Announce []string `yaml:"announce"`

	pool services.Pool
}

// ServicesLeaseSettings are those of every address; see lease.Config.
type ServicesLeaseSettings struct {
	Duration time.Duration `yaml:"duration"`
	Policy   string        `yaml:"policy"`
	// Listen is where this machine hears the others; "" is the first address of
	// the interface, and port 9390.
	Listen string `yaml:"listen"`
}

// defaultPool is the name of one that the command line gives.
const defaultPool = "default"

// completeServices brings together what file and command line say.
func (s *Settings) completeServices() error {
	if s.Services == nil && !s.services.on && len(s.services.pool) == 0 {
		return nil
	}
	if s.Services == nil {
		s.Services = &ServicesSettings{}
	}
	v := s.Services
	if len(s.services.pool) > 0 {
		v.Pools = append(v.Pools, PoolSettings{Name: defaultPool, Addresses: s.services.pool})
	}
	v.Node, v.Interface = cmp.Or(s.services.node, v.Node), cmp.Or(s.services.iface, v.Interface)
	v.Kubernetes.Kubeconfig = cmp.Or(s.services.kubeconfig, v.Kubernetes.Kubeconfig)
	if err := v.complete(); err != nil {
		return fmt.Errorf("services.%w", err)
	}
	return nil
}

// servicesFlags are what the command line says about Services.
type servicesFlags struct {
	on                      bool
	pool                    []string
	node, iface, kubeconfig string
}

func (v *ServicesSettings) complete() error {
	if v.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("node: not set, and the host has no name (%w); write the name of this machine in Kubernetes", err)
		}
		v.Node = strings.ToLower(name)
	}
	v.Kubernetes.Namespace = cmp.Or(v.Kubernetes.Namespace, "kube-system")
	for i, server := range v.Kubernetes.Servers {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return fmt.Errorf("kubernetes.servers[%d]: %q is not a URL; write https://HOST:PORT", i, server)
		}
	}
	for i := range v.Pools {
		if err := v.Pools[i].complete(); err != nil {
			return fmt.Errorf("pools[%d].%w", i, err)
		}
	}
	c := v.config()
	if err := c.Check(); err != nil {
		return err
	}
	for i := range v.Health {
		if err := v.Health[i].complete(false); err != nil {
			return fmt.Errorf("health[%d].%w", i, err)
		}
	}
	return v.Lease.check()
}

// config is that of package services, but for what others have.
func (v *ServicesSettings) config() services.Config {
	c := services.Config{Class: v.Class, Taken: map[netip.Addr]string{}}
	for i := range v.Pools {
		c.Pools = append(c.Pools, v.Pools[i].pool)
	}
	return c
}

func (p *PoolSettings) complete() error {
	if !word.MatchString(p.Name) {
		return fmt.Errorf("name: %q; write a name of small letters, digits, dots and dashes", p.Name)
	}
	p.pool = services.Pool{Name: p.Name, Auto: p.AutoAssign == nil || *p.AutoAssign, Namespaces: p.Namespaces, Selector: p.ServiceSelector}
	for i, text := range p.Addresses {
		s, err := services.ParseSpan(text)
		if err != nil {
			return fmt.Errorf("addresses[%d]: %w; write FIRST-LAST, NETWORK/BITS or one address", i, err)
		}
		p.pool.Spans = append(p.pool.Spans, s)
	}
	if len(p.Announce) == 0 {
		p.Announce = []string{announceARP}
	}
	for i, how := range p.Announce {
		if !slices.Contains(announcers, how) || slices.Contains(p.Announce[:i], how) {
			return fmt.Errorf("announce[%d]: %q; write each of %s once at most", i, how, strings.Join(announcers, ", "))
		}
	}
	return nil
}

func (l *ServicesLeaseSettings) check() error {
	if _, err := lease.ParsePolicy(cmp.Or(l.Policy, lease.Keep.String())); err != nil {
		return fmt.Errorf("lease.%w", err)
	}
	if d := cmp.Or(l.Duration, lease.DefaultDuration); d < lease.MinDuration || d > lease.MaxDuration {
		return fmt.Errorf("lease.duration %s: want %s to %s", d, lease.MinDuration, lease.MaxDuration)
	}
	if l.Listen == "" {
		return nil
	}
	at, err := netip.ParseAddrPort(l.Listen)
	if err != nil || at.Port() == 0 || at.Addr().IsUnspecified() {
		return fmt.Errorf("lease.listen: %q; write ADDRESS:PORT, which the other machines reach", l.Listen)
	}
	return nil
}

// first is the lowest address of the first pool.
func (v *ServicesSettings) first() netip.Addr { return v.Pools[0].pool.Spans[0].First }

var errNoAddress = errors.New("it has no address of its own; give it one, or write services.lease.listen")

// listenAt is where the others reach this machine.
func (v *ServicesSettings) listenAt(own []netip.Prefix) (netip.AddrPort, error) {
	if v.Lease.Listen != "" {
		return netip.ParseAddrPort(v.Lease.Listen)
	}
	c := v.config()
	all := slices.Clone(own)
	slices.SortStableFunc(all, func(a, b netip.Prefix) int { return cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()) })
	for _, p := range all {
		if a := p.Addr(); a.IsGlobalUnicast() && c.Find(a) == nil {
			return netip.AddrPortFrom(a, defaultPeerPort), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("interface %s: %w", v.Interface, errNoAddress)
}

// defaultPeerPort is that of the guide's examples.
const defaultPeerPort = 9390
