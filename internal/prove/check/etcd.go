package check

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/holdfast-ha/holdfast/internal/prove/check/collect"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// etcdFlags say how etcd's members are asked, in the words of etcdctl.
type etcdFlags struct{ access collect.EtcdAccess }

func (e *etcdFlags) bind(f *pflag.FlagSet) {
	f.StringSliceVar(&e.access.Endpoints, "etcd-endpoints", nil, "ask etcd's members, beginning here, such as https://10.0.0.11:2379 (with --node: its own, with the credentials it has)")
	f.StringVar(&e.access.CAFile, "etcd-cacert", "", "PEM file of the authority of etcd's servers")
	f.StringVar(&e.access.CertFile, "etcd-cert", "", "PEM file of a client certificate for etcd")
	f.StringVar(&e.access.KeyFile, "etcd-key", "", "PEM file of its key")
}

func (e *etcdFlags) given() bool { return len(e.access.Endpoints) > 0 }

// read asks the members where the flags say how, or where the machine at root has
// what is needed; a root of "" stands for no machine.
func (e *etcdFlags) read(ctx context.Context, root string, sink collect.Sink, states map[string]source.Stated) error {
	access, ok := e.access, e.given()
	if !ok && root == "/" {
		access, ok = collect.EtcdAt(root)
	}
	if !ok {
		return nil
	}
	state, err := collect.Etcd(ctx, access, sink)
	if err == nil {
		states["etcd"] = state
	}
	return err
}
