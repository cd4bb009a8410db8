package check

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/collect"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// namer passes files on, and reads beside what tells by which names the API is reached:
// settings of machines, and the ConfigMaps.
type namer struct {
	collect.Sink
	told *source.Feed
	// servers are the URLs by which check itself goes.
	servers []string
}

func newNamer(sink collect.Sink) *namer {
	return &namer{Sink: sink, told: source.NewFeed("names", source.DefaultLimits())}
}

// File is that of a Sink.
func (n *namer) File(name string, data []byte) error {
	if strings.HasPrefix(name, "nodes/") || strings.HasPrefix(name, "objects/configmaps.") {
		if err := n.told.File(name, data); err != nil {
			return err
		}
	}
	return n.Sink.File(name, data)
}

// lookUp asks the name servers of where check runs for the names that were told.
func (n *namer) lookUp(ctx context.Context, states map[string]source.Stated) error {
	names, err := n.names()
	if err != nil {
		return err
	}
	servers, err := collect.NameServers("/")
	if err != nil {
		states[string(fact.Lookups)] = source.Stated{State: fact.Unknown.String(), Why: err.Error()}
		return nil
	}
	from, err := os.Hostname()
	if err != nil {
		from = ""
	}
	state, err := collect.Lookups(ctx, names, servers, collect.DNS(from), n.Sink)
	states[string(fact.Lookups)] = state
	return err
}

// names are those that DNS has to know, sorted: not what a machine has in /etc/hosts,
// nor names that only pods resolve or that need a search list.
func (n *namer) names() ([]string, error) {
	f, err := n.told.Close(source.Manifest{Version: source.Version})
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	take := func(node, host string) {
		if entries, _ := f.HostEntries(node, host); len(entries) > 0 || !fact.Named(host) || !strings.Contains(host, ".") || inCluster(host) {
			return
		}
		found[strings.TrimSuffix(strings.ToLower(host), ".")] = true
	}
	for _, r := range f.APIReferences() {
		take(r.Node, r.Host)
	}
	for _, server := range n.servers {
		take("", fact.Host(server))
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func inCluster(host string) bool {
	return strings.HasSuffix(host, ".svc") || strings.Contains(host, ".svc.") || strings.HasSuffix(host, ".cluster.local")
}
