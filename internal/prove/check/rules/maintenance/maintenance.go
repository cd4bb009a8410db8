package maintenance

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{addressByUpgrade, rebootTogether, drainStuck, mustWait, possibleCPUs, halfUpgraded}
}

var addressByUpgrade = rule.Rule{
	ID: "HF-MAINT-001", Group: rule.Maintenance, Severity: rule.Error,
	Title: "An automatic upgrade can take a node's address away",
	Needs: []fact.Kind{fact.Files},
	Why: "Unattended upgrades let needrestart restart systemd-networkd after an update of a library it uses. A node whose address comes by " +
		"DHCP is then without one until a lease is had again; a control-plane node was gone for 17 h that way, and all nodes upgrade at the same hour.",
	Remedy: "give nodes static addresses, and upgrade them by hand, one at a time",
	Drill:  "vip-node-silent",
	Check:  checkUpgrade,
}

func checkUpgrade(f *fact.Facts) ([]rule.Finding, error) {
	dhcp := map[string]fact.Location{}
	upgrades := map[string]fact.Location{}
	for _, file := range f.Files.Items {
		node := file.Object.Node
		if line := dhcpLine(file.Object); line > 0 {
			dhcp[node] = file.At.LineIn(line)
		}
		if line := upgradeLine(file.Object); line > 0 {
			upgrades[node] = file.At.LineIn(line)
		}
	}
	var all []rule.Finding
	for _, node := range slices.Sorted(maps.Keys(dhcp)) {
		at, ok := upgrades[node]
		if !ok {
			continue
		}
		all = append(all, rule.Finding{
			At: at, Key: node,
			What:   fmt.Sprintf("node %s upgrades itself and has its address by DHCP (%s)", node, dhcp[node]),
			Effect: rule.Unending("an upgrade that restarts systemd-networkd", "node "+node+" may have no address"),
			Remedy: "systemctl disable --now apt-daily-upgrade.timer unattended-upgrades.service\n" +
				"echo '$nrconf{override_rc}{qr(^systemd-networkd)} = 0;' > /etc/needrestart/conf.d/networkd.conf\n" +
				"# and a static address: [Network] Address=… Gateway=… DNS=… instead of DHCP=",
		})
	}
	return all, nil
}

// dhcpLine is the line by which a file of networkd or netplan asks for DHCP.
func dhcpLine(file *fact.File) int {
	switch {
	case path.Dir(file.Path) == "/etc/systemd/network" && path.Ext(file.Path) == ".network":
		for _, section := range conf.Assignments(file.Data, "#;").All("Network") {
			if d := section.First("DHCP"); d != nil && (d.Word(1) == "yes" || d.Word(1) == "ipv4" || d.Word(1) == "true") {
				return d.Line
			}
		}
	case path.Dir(file.Path) == "/etc/netplan":
		return lineWith(file.Data, "dhcp4: true", "dhcp4: yes")
	case file.Path == "/etc/network/interfaces":
		return lineWith(file.Data, "inet dhcp")
	}
	return 0
}

// upgradeLine is the line by which a file of apt asks for upgrades by themselves.
func upgradeLine(file *fact.File) int {
	if path.Dir(file.Path) != "/etc/apt/apt.conf.d" {
		return 0
	}
	return lineWith(file.Data, `APT::Periodic::Unattended-Upgrade "1"`)
}

// lineWith is the first line that has one of the texts and is no comment; 0 where
// none is.
func lineWith(data []byte, texts ...string) int {
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//") {
			continue
		}
		for _, text := range texts {
			if strings.Contains(line, text) {
				return i + 1
			}
		}
	}
	return 0
}
