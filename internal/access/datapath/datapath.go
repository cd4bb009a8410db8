package datapath

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// Kind is what carries the traffic of Services.
type Kind string

// The kinds that are told apart.
const (
	KubeProxy Kind = "kube-proxy"
	Cilium    Kind = "cilium"
	Unknown   Kind = "unknown"
)

// Datapath is what carries the traffic of Services in a cluster.
type Datapath struct {
	Kind Kind
	// Major and Minor are the version of Cilium; 0.0 where it is not known.
	Major, Minor int
	// Server is the API server's version; the zero value is not known.
	Server kubeapi.ServerVersion
}

// String is "cilium 1.19" or "kube-proxy".
func (d Datapath) String() string {
	if d.Kind == Cilium && d.Major > 0 {
		return fmt.Sprintf("cilium %d.%d", d.Major, d.Minor)
	}
	if d.Kind == "" {
		return string(Unknown)
	}
	return string(d.Kind)
}

// SameZone says that PreferSameZone is understood.
func (d Datapath) sameZone() bool {
	switch {
	case !d.Server.AtLeast(1, 34):
		return false // the API refuses the value
	case d.Kind == KubeProxy:
		return true
	case d.Kind == Cilium:
		return d.Major > 1 || d.Major == 1 && d.Minor >= 20
	}
	return false
}

// Prefer is the value to set for traffic to stay in its zone.
func (d Datapath) Prefer() string {
	if d.sameZone() {
		return core.ServiceTrafficDistributionPreferSameZone
	}
	return core.ServiceTrafficDistributionPreferClose
}

// Honours lists the values that are known to keep traffic in its zone.
// PreferClose always is one: see the guarantees.
func (d Datapath) Honours() []string {
	all := []string{core.ServiceTrafficDistributionPreferClose}
	if d.sameZone() {
		all = append(all, core.ServiceTrafficDistributionPreferSameZone)
	}
	return all
}

// Doubt is why traffic with that value of trafficDistribution would not stay in
// its zone, and what to set; "" when it does. An unset value is "".
func (d Datapath) Doubt(value string) string {
	remedy := "set " + d.Prefer()
	switch value {
	case core.ServiceTrafficDistributionPreferClose:
		return ""
	case core.ServiceTrafficDistributionPreferSameZone:
		if d.sameZone() {
			return ""
		}
		if d.Kind == Cilium || d.Kind == KubeProxy {
			return fmt.Sprintf("trafficDistribution %s: %s ignores it; %s", value, d, remedy)
		}
		return fmt.Sprintf("trafficDistribution %s: not known to be honoured here; %s, or name the datapath in the settings", value, remedy)
	case "":
		return "trafficDistribution is not set: traffic goes to every zone; " + remedy
	}
	return fmt.Sprintf("trafficDistribution %.40q does not keep traffic in its zone; %s", value, remedy)
}

var (
	setting = regexp.MustCompile(`^cilium[- ]v?(\d+)\.(\d+)`)
	tag     = regexp.MustCompile(`:v?(\d+)\.(\d+)(?:[.\-@]|$)`)
)

// Parse reads a setting: auto, kube-proxy, cilium or cilium-1.19. auto gives
// false: it has to be detected.
func Parse(text string) (d Datapath, known bool, err error) {
	switch text {
	case "", "auto":
		return Datapath{Kind: Unknown}, false, nil
	case string(KubeProxy):
		return Datapath{Kind: KubeProxy}, true, nil
	case string(Cilium):
		return Datapath{Kind: Cilium}, true, nil
	}
	if m := setting.FindStringSubmatch(text); m != nil {
		d = versioned(m)
		return d, true, nil
	}
	return Datapath{}, false, fmt.Errorf("datapath: %.40q; write auto, kube-proxy, cilium or cilium-1.19", text)
}

func versioned(m []string) Datapath {
	major, err1 := strconv.Atoi(m[1])
	minor, err2 := strconv.Atoi(m[2])
	if err1 != nil || err2 != nil {
		return Datapath{Kind: Cilium}
	}
	return Datapath{Kind: Cilium, Major: major, Minor: minor}
}

// ofImage reads the version of Cilium from an image reference; one by digest
// alone, or of a renamed build, says nothing.
func ofImage(image string) Datapath {
	name, _, _ := strings.Cut(image, "@")
	if m := tag.FindStringSubmatch(name); m != nil {
		return versioned(m)
	}
	return Datapath{Kind: Cilium}
}
