package fact

import (
	"net"
	"slices"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
)

// Named says whether a host is a name that somebody has to resolve.
func Named(host string) bool {
	return host != "" && net.ParseIP(host) == nil && !Loopback(host)
}

// HostEntry is a line of a node's /etc/hosts that has a name.
type HostEntry struct {
	Node, Address string
	At            Location
}

// HostEntries are the lines of a node's /etc/hosts that have a name, and whether
// the file is known.
func (f *Facts) HostEntries(node, name string) ([]HostEntry, Known) {
	file, known := f.FileOf(node, "/etc/hosts")
	if file == nil {
		return nil, known
	}
	var all []HostEntry
	for _, line := range conf.Lines(file.Object.Data, "#").Blocks {
		if slices.Contains(line.Words[1:], name) {
			all = append(all, HostEntry{node, line.Words[0], file.At.LineIn(line.Line)})
		}
	}
	return all, known
}

// FileNodes lists the nodes of which files are known, sorted.
func (f *Facts) FileNodes() []string {
	var all []string
	for _, file := range f.Files.Items {
		all = append(all, file.Object.Node)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
