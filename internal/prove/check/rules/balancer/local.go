package balancer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Timers of KubePrism and extractedprism, which no setting of Talos changes: a
// connect every 20 s with 15 s, and a score that takes four failures to fall.
const (
	prismInterval, prismTimeout = 20 * time.Second, 15 * time.Second
	prismFall                   = 4
)

const talosConfig = "/system/state/config.yaml"

// machine are the parts of a Talos machine's settings that matter here.
type machine struct {
	Machine *struct {
		Features struct {
			KubePrism struct {
				Enabled bool `yaml:"enabled"`
			} `yaml:"kubePrism"`
		} `yaml:"features"`
		Kubelet struct {
			Image string `yaml:"image"`
		} `yaml:"kubelet"`
	} `yaml:"machine"`
	Cluster struct {
		ControlPlane struct {
			Endpoint string `yaml:"endpoint"`
		} `yaml:"controlPlane"`
		Discovery struct {
			Enabled    *bool `yaml:"enabled"`
			Registries struct {
				Kubernetes struct {
					Disabled bool `yaml:"disabled"`
				} `yaml:"kubernetes"`
				Service struct {
					Disabled bool `yaml:"disabled"`
				} `yaml:"service"`
			} `yaml:"registries"`
		} `yaml:"discovery"`
	} `yaml:"cluster"`
}

// prism is a Talos machine that has KubePrism.
type prism struct {
	machine
	file fact.Item[fact.File]
}

func prisms(f *fact.Facts) []prism {
	var all []prism
	for _, file := range f.FilesAt(talosConfig) {
		d := yaml.NewDecoder(bytes.NewReader(file.Object.Data))
		for {
			var m machine
			if d.Decode(&m) != nil {
				break // the end, or what is not its settings
			}
			if m.Machine != nil && m.Machine.Features.KubePrism.Enabled {
				all = append(all, prism{m, file})
				break
			}
		}
	}
	return all
}

// lineOf is where text stands in a file; 1 where it does not.
func lineOf(file fact.Item[fact.File], text string) fact.Location {
	before, _, ok := strings.Cut(string(file.Object.Data), text)
	if !ok {
		return file.At
	}
	return file.At.LineIn(strings.Count(before, "\n") + 1)
}

var quickestConnect = rule.Rule{
	ID: "HF-BAL-003", Group: rule.Balancer, Severity: rule.Warning,
	Title: "The balancer on nodes takes the apiserver that accepts first",
	Needs: []fact.Kind{fact.Nodes}, OneOf: []fact.Kind{fact.Files, fact.Pods, fact.DaemonSets},
	Why: "KubePrism and extractedprism rank apiservers by the time of a TCP connect and look at nothing else. One without quorum, or one that " +
		"hangs, accepts as fast as ever, and the one nearby accepts faster than any that works.",
	Remedy: "a balancer on every node that asks /readyz",
	Drill:  "balance-frozen",
	Check:  checkPrisms,
}

func checkPrisms(f *fact.Facts) ([]rule.Finding, error) {
	if len(f.Zones()) < 2 {
		return nil, fact.NotApplicable("no two zones, so that no apiserver is much nearer than the others")
	}
	var all []rule.Finding
	gone := scenario.Checks(prismInterval, prismTimeout, prismFall)
	for _, p := range prisms(f) {
		all = append(all, rule.Finding{
			At: lineOf(p.file, "kubePrism:"), Key: "kubePrism",
			What:   fmt.Sprintf("KubePrism on %s looks at TCP connects only, and leaves even an apiserver that is gone after up to %s", p.file.Object.Node, gone.Max),
			Effect: rule.Unending("an apiserver nearby that hangs or has no quorum", "the kubelet of "+p.file.Object.Node+" stays with it"),
			Remedy: "holdfast balance manifest static-pod --distribution talos --backend CP1:6443,CP2:6443,CP3:6443   # into machine.pods, for all clients but the kubelet; docs/guide/balance.md says what Talos' own kubelet can be pointed at",
		})
	}
	for _, c := range f.Components("extractedprism") {
		all = append(all, rule.Finding{
			At: c.At.Field("spec", "containers", strconv.Itoa(c.Index)), Key: cmp.Or(c.Node, "extractedprism"),
			What:   strings.TrimSpace(fmt.Sprintf("extractedprism %s looks at TCP connects only, and leaves even an apiserver that is gone after up to %s", c.Node, gone.Max)),
			Effect: rule.Unending("an apiserver nearby that hangs or has no quorum", "clients of the balancer stay with it"),
			Remedy: "holdfast balance manifest static-pod --backend CP1:6443,CP2:6443,CP3:6443 > /etc/kubernetes/manifests/holdfast-balance.yaml   # on the same port, 127.0.0.1:7445",
		})
	}
	if len(all) == 0 && len(ofHoldfast(f, "balance")) == 0 {
		return nil, fact.NotApplicable("no balancer on nodes is known")
	}
	return all, nil
}

// ofHoldfast are the instances of one of Holdfast's own agents.
func ofHoldfast(f *fact.Facts, agent string) []fact.Component {
	var all []fact.Component
	for _, c := range f.Components("holdfast") {
		if words := slices.Concat(c.Container.Command, c.Container.Args); slices.Contains(words, agent) {
			all = append(all, c)
		}
	}
	return all
}

var oneAddress = rule.Rule{
	ID: "HF-BAL-004", Group: rule.Balancer, Severity: rule.Error,
	Title: "KubePrism can learn of one address of the API only",
	Needs: []fact.Kind{fact.Files},
	Why: "KubePrism knows the endpoint of the machine's settings and what discovery tells it. The Kubernetes registry of discovery does not " +
		"work since 1.32, and without the service registry one address is left: when its site is cut off, the workers of the majority turn NotReady.",
	Remedy: "enable the service registry, or use a balancer with a list of all apiservers",
	Drill:  "site-loss",
	Check:  checkDiscovery,
}

func checkDiscovery(f *fact.Facts) ([]rule.Finding, error) {
	all := prisms(f)
	if len(all) == 0 {
		return nil, fact.NotApplicable("no Talos machine with KubePrism")
	}
	var found []rule.Finding
	for _, p := range all {
		blind, err := p.blind(f.Server)
		if err != nil {
			return nil, err
		}
		if !blind {
			continue
		}
		endpoint := p.Cluster.ControlPlane.Endpoint
		found = append(found, rule.Finding{
			At: lineOf(p.file, "discovery:"), Key: "discovery",
			What:   fmt.Sprintf("KubePrism on %s knows %s alone: no registry of discovery works", p.file.Object.Node, endpoint),
			Effect: rule.Unending("losing "+fact.Host(endpoint)+" or the way there", "the kubelet of "+p.file.Object.Node+" has no API"),
			Remedy: "talosctl -n NODE patch machineconfig --patch '{\"cluster\":{\"discovery\":{\"enabled\":true,\"registries\":{\"service\":{\"disabled\":false}}}}}'   # node after node\n" +
				"# or, where no outside service may be asked: holdfast balance manifest static-pod --distribution talos --backend CP1:6443,CP2:6443,CP3:6443",
		})
	}
	return found, nil
}

// blind says that no registry tells of other apiservers. What is not written is
// taken for on: only what is switched off counts.
func (p prism) blind(server string) (bool, error) {
	d := p.Cluster.Discovery
	if d.Enabled != nil && !*d.Enabled {
		return true, nil
	}
	if !d.Registries.Service.Disabled {
		return false, nil
	}
	if d.Registries.Kubernetes.Disabled {
		return true, nil
	}
	_, version := fact.SplitImage(p.Machine.Kubelet.Image)
	minor, ok := minorOf(cmp.Or(version, server))
	if !ok {
		return false, fact.Lacking("the version of Kubernetes on %s is not known", p.file.Object.Node)
	}
	return minor >= 32, nil
}

// minorOf is the second number of a version such as v1.35.2.
func minorOf(version string) (int, bool) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 || parts[0] != "1" {
		return 0, false
	}
	n, err := strconv.Atoi(parts[1])
	return n, err == nil
}
