package collect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// LookupTimeout bounds one question. A name server of the own network answers in
// milliseconds, and a resolver asks the next one after 5 s (resolv.conf(5)).
const LookupTimeout = 2 * time.Second

// Bounds of what is asked: resolvers take three servers (MAXNS), and a cluster has a
// handful of names for its API.
const (
	maxServers = 3
	maxNames   = 32
)

// Asker asks one name server, an address, for the addresses of a name.
type Asker func(ctx context.Context, server, name string) fact.Lookup

// Lookups asks each of the servers for each of the names, and hands the answers to sink
// as lookups.json. The state is absent where there is no name to ask for, and unknown
// where there is no server. An error is sink's, or ctx's.
func Lookups(ctx context.Context, names, servers []string, ask Asker, sink Sink) (source.Stated, error) {
	switch {
	case len(names) == 0:
		return source.Stated{State: fact.Absent.String()}, nil
	case len(servers) == 0:
		return source.Stated{State: fact.Unknown.String(), Why: "resolv.conf of where check runs names no server"}, nil
	}
	names, servers = names[:min(len(names), maxNames)], servers[:min(len(servers), maxServers)]
	all := make([]fact.Lookup, 0, len(names)*len(servers))
	for _, name := range names {
		for _, server := range servers {
			all = append(all, fact.Lookup{Name: name, Server: server})
		}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range all {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			all[i] = ask(ctx, all[i].Server, all[i].Name)
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return source.Stated{}, context.Cause(ctx)
	}
	data, err := json.MarshalIndent(map[string]any{"lookups": all}, "", "  ")
	if err != nil {
		return source.Stated{}, fmt.Errorf("write look-ups: %w", err)
	}
	return source.Stated{State: fact.Present.String()}, sink.File("lookups.json", append(data, '\n'))
}

// stub is systemd-resolved's own address, behind which the real servers are.
const stub = "127.0.0.53"

// NameServers are those that a machine asks whose file system begins at root, in their
// order: behind systemd-resolved those that it asks.
func NameServers(root string) ([]string, error) {
	servers, err := serversOf(filepath.Join(root, "etc/resolv.conf"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read name servers: %w", err)
	}
	if slices.Equal(servers, []string{stub}) {
		if behind, err := serversOf(filepath.Join(root, "run/systemd/resolve/resolv.conf")); err == nil && len(behind) > 0 {
			return behind, nil
		}
	}
	return servers, nil
}

// resolvSize is more than any resolv.conf has.
const resolvSize = 64 << 10

func serversOf(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, line := range conf.Lines(data[:min(len(data), resolvSize)], "#;").All("nameserver") {
		if server := line.Word(1); server != "" && !slices.Contains(all, server) {
			all = append(all, server)
		}
	}
	return all, nil
}

// sorted are addresses in an order that does not change from answer to answer.
func sorted(addresses []string) []string {
	slices.SortFunc(addresses, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return slices.Compact(addresses)
}
