package balance

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/access/balance/source"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// set makes the sources of a pool. known is what its predecessor had found.
func (b *Backends) set(name string, f Frontend, own []string, known []source.Listed, log *slog.Logger) *source.Set {
	o := source.Options{Name: name, Static: b.static(), Listen: own, Known: known, Log: log}
	if e := b.EndpointSlices; e != nil {
		o.Sources = append(o.Sources, source.NewSlices(source.SlicesOptions{
			Namespace: e.Namespace, Service: e.Service, Port: e.Port, Log: log,
			Connect: kubeapi.Connector(e.Kubeconfig, "", dialSelf(f)),
		}))
	}
	for _, d := range b.DNS {
		o.Sources = append(o.Sources, source.NewDNS(source.DNSOptions{Name: d.Name, SRV: d.SRV, Port: uint16(d.Port), Every: d.Every, Log: log}))
	}
	if b.File != "" {
		o.Sources = append(o.Sources, source.NewFile(b.File, log))
	}
	if b.State != noState && len(o.Sources) > 0 {
		o.StateFile = b.State
		if o.StateFile == "" {
			o.StateFile = filepath.Join(defaultStateDir, strings.ReplaceAll(name, "/", "-")+".json")
		}
	}
	return source.NewSet(o)
}

func (b *Backends) static() []source.Backend {
	var all []source.Backend
	for _, s := range b.Static {
		network, address, err := source.ParseAddress(s.Address)
		if err != nil {
			continue // complete has refused it
		}
		all = append(all, source.Backend{Network: network, Address: address, Zone: s.Zone, Weight: s.Weight, Backup: s.Backup, MaxConns: s.MaxConns})
	}
	return all
}

// dialSelf makes discovery use the frontend that it serves: it needs a live
// apiserver as much as everybody else. nil, for a frontend that expects PROXY
// headers, means that discovery dials the server itself.
func dialSelf(f Frontend) func(context.Context, string, string) (net.Conn, error) {
	if f.AcceptProxy || len(f.Listen) == 0 {
		return nil
	}
	network, address := "tcp", f.Listen[0]
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	} else if host, port, err := net.SplitHostPort(address); err == nil {
		switch host {
		case "", "0.0.0.0":
			address = net.JoinHostPort("127.0.0.1", port)
		case "::":
			address = net.JoinHostPort("::1", port)
		}
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}
