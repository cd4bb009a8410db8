package remote

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// Roles of a host. They say in the print-out what a fault takes away.
var Roles = []string{"server", "worker", "witness", "router"}

// DefaultDir is where a host keeps the journal of a drill, root's alone.
const DefaultDir = "/var/lib/holdfast-drill"

// most bounds inventories, keys and known_hosts files.
const most = 1 << 20

// Inventory is the file of `holdfast drill run --inventory`.
type Inventory struct {
	Version int `yaml:"version"`
	// KnownHosts is the file with the host keys, relative to the inventory (default
	// ~/.ssh/known_hosts).
	KnownHosts string `yaml:"knownHosts,omitempty"`
	Hosts      []Host `yaml:"hosts"`
}

// Host is one machine.
type Host struct {
	Name string `yaml:"name"`
	// Address is what the other hosts know it by. Networks are further ones behind
	// it that a cut takes as well, such as the routed CIDR of its pods.
	Address  netip.Addr     `yaml:"address"`
	Networks []netip.Prefix `yaml:"networks,omitempty"`
	// SSH is HOST:PORT (default Address:22).
	SSH  string `yaml:"ssh,omitempty"`
	User string `yaml:"user"`
	// Sudo runs scripts by `sudo -n`, for a user who is not root.
	Sudo bool `yaml:"sudo,omitempty"`
	// Key is the file of the private key, relative to the inventory; without it
	// the agent at SSH_AUTH_SOCK signs.
	Key  string `yaml:"key,omitempty"`
	Site string `yaml:"site"`
	Role string `yaml:"role"`
	// Units maps what scenarios call a process (main, apiserver, balance, vip, …)
	// to the systemd unit that runs it here.
	Units map[string]string `yaml:"units,omitempty"`
	// Dir is where the journal is kept during a drill (default [DefaultDir]).
	Dir string `yaml:"dir,omitempty"`
}

var (
	nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`)
	unitForm = regexp.MustCompile(`^[A-Za-z0-9_.@:-]+\.service$`)
	dirForm  = regexp.MustCompile(`^/[A-Za-z0-9_./-]+$`)
	userForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,31}$`)
)

// LoadInventory reads the file and resolves what is relative to it.
func LoadInventory(name string) (*Inventory, error) {
	data, err := file.Read(name, most)
	if err != nil {
		return nil, fmt.Errorf("read inventory: %w", err)
	}
	inv, err := ParseInventory(name, data)
	if err != nil {
		return nil, err
	}
	beside := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(filepath.Dir(name), *p)
		}
	}
	beside(&inv.KnownHosts)
	for i := range inv.Hosts {
		beside(&inv.Hosts[i].Key)
	}
	return inv, nil
}

// ParseInventory decodes and validates; name stands in errors.
func ParseInventory(name string, data []byte) (*Inventory, error) {
	var inv Inventory
	if err := config.Decode(bytes.NewReader(data), name, &inv); err != nil {
		return nil, err
	}
	if err := inv.fill(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &inv, nil
}

// fill sets defaults and returns the first mistake.
func (inv *Inventory) fill() error {
	if inv.Version != 1 {
		return fmt.Errorf("version: %d is unknown; write version: 1", inv.Version)
	}
	if len(inv.Hosts) == 0 {
		return fmt.Errorf("hosts: none; list the hosts of the cluster")
	}
	if len(inv.Hosts) > 1000 {
		return fmt.Errorf("hosts: %d are too many; at most 1000", len(inv.Hosts))
	}
	for i := range inv.Hosts {
		h := &inv.Hosts[i]
		if err := h.fill(); err != nil {
			return fmt.Errorf("hosts[%d].%w", i, err)
		}
		for j, o := range inv.Hosts[:i] {
			switch {
			case o.Name == h.Name:
				return fmt.Errorf("hosts[%d].name: %q is also that of hosts[%d]; give each its own", i, h.Name, j)
			case o.Address == h.Address:
				return fmt.Errorf("hosts[%d].address: %s is also that of hosts[%d]; give each its own", i, h.Address, j)
			}
		}
	}
	return inv.apart()
}

// apart refuses a host that is called as a site is: a cut could mean either.
func (inv *Inventory) apart() error {
	for i, h := range inv.Hosts {
		if slices.ContainsFunc(inv.Hosts, func(o Host) bool { return o.Site == h.Name }) {
			return fmt.Errorf("hosts[%d].name: %q is also a site; call the host otherwise", i, h.Name)
		}
	}
	return nil
}

func (h *Host) fill() error {
	h.Address = h.Address.Unmap()
	if h.SSH == "" && h.Address.IsValid() {
		h.SSH = net.JoinHostPort(h.Address.String(), "22")
	}
	if h.Dir == "" {
		h.Dir = DefaultDir
	}
	switch {
	case !nameForm.MatchString(h.Name):
		return fmt.Errorf("name: %q is no name; use lower-case letters, digits, dots and dashes", h.Name)
	case !nameForm.MatchString(h.Site):
		return fmt.Errorf("site: %q is no name; write the site that scenarios call it by, such as a", h.Site)
	case !h.Address.IsValid() || h.Address.IsUnspecified() || h.Address.IsLoopback() || h.Address.Zone() != "":
		return fmt.Errorf("address: %q is none that other hosts reach; write the IP address of the host", h.Address)
	case !userForm.MatchString(h.User):
		return fmt.Errorf("user: %q is no user; write who logs in, such as root", h.User)
	case !slices.Contains(Roles, h.Role):
		return fmt.Errorf("role: %q is unknown; choose %s", h.Role, strings.Join(Roles, ", "))
	case !dirForm.MatchString(h.Dir) || path.Clean(h.Dir) != h.Dir || strings.Count(h.Dir, "/") < 2:
		return fmt.Errorf("dir: %q cannot hold the journal; write a clean absolute path, such as %s", h.Dir, DefaultDir)
	}
	if _, port, err := net.SplitHostPort(h.SSH); err != nil || port == "" {
		return fmt.Errorf("ssh: %q is no HOST:PORT; write one, such as 10.0.0.1:22", h.SSH)
	}
	return h.parts()
}

// parts checks networks and units.
func (h *Host) parts() error {
	for i, n := range h.Networks {
		if !n.IsValid() || n.Bits() == 0 {
			return fmt.Errorf("networks[%d]: %q is none, or everything; write a CIDR such as 10.244.1.0/24", i, n)
		}
		h.Networks[i] = n.Masked()
	}
	for what, unit := range h.Units {
		if !unitForm.MatchString(unit) {
			return fmt.Errorf("units.%s: %q is no service; write one such as etcd.service", what, unit)
		}
		if strings.HasPrefix(unit, "ssh") || strings.HasPrefix(unit, "systemd-") || strings.HasPrefix(unit, "dbus") {
			return fmt.Errorf("units.%s: %q keeps the host reachable; a drill must not stop it", what, unit)
		}
	}
	return nil
}

// unitNames lists the units of a host, each once, in order.
func (h Host) unitNames() []string {
	return slices.Compact(slices.Sorted(maps.Values(h.Units)))
}

// at returns the hosts that a scenario means by a site's or a host's name.
func (inv *Inventory) at(name string) []Host {
	var out []Host
	for _, h := range inv.Hosts {
		if h.Site == name || h.Name == name {
			out = append(out, h)
		}
	}
	return out
}
