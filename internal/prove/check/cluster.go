package check

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-ha/holdfast/internal/base/file"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/prove/check/collect"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// clusterFlags say which live cluster is meant.
type clusterFlags struct {
	kubeconfig, context string
	inCluster           bool
	timeout             time.Duration
}

func (c *clusterFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "read the live cluster of this kubeconfig; deploy/check-role.yaml is what it needs")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig (default: the current one)")
	f.BoolVar(&c.inCluster, "in-cluster", false, "read the cluster whose pod this is")
	f.DurationVar(&c.timeout, "timeout", time.Minute, "longest time that reading a cluster may take")
}

func (c *clusterFlags) given() bool { return c.kubeconfig != "" || c.inCluster }

// facts reads the cluster without a bundle, and beside it those of its machines.
func (c *clusterFlags) facts(ctx context.Context, e etcdFlags, machines []string) (*fact.Facts, error) {
	feed := source.NewFeed("the cluster", source.DefaultLimits())
	for _, path := range machines {
		if err := feed.Add(path); err != nil {
			return nil, err
		}
	}
	names := newNamer(feed)
	m, err := c.collect(ctx, names)
	if err != nil {
		return nil, err
	}
	if err := e.read(ctx, "", feed, m.States); err != nil {
		return nil, err
	}
	if err := names.lookUp(ctx, m.States); err != nil {
		return nil, err
	}
	return feed.Close(m)
}

// nodeFacts reads the machine whose file system begins at root, and the members of
// its etcd.
func nodeFacts(ctx context.Context, root string, e etcdFlags) (*fact.Facts, error) {
	feed := source.NewFeed("this machine", source.DefaultLimits())
	names := newNamer(feed)
	states, err := collect.Node(ctx, root, names)
	if err != nil {
		return nil, err
	}
	if err := e.read(ctx, root, feed, states); err != nil {
		return nil, err
	}
	if root == "/" { // another root is another machine's
		if err := names.lookUp(ctx, states); err != nil {
			return nil, err
		}
	}
	f, err := feed.Close(source.Manifest{Version: source.Version, Collected: time.Now(), States: states})
	if err == nil {
		f.Root = root
	}
	return f, err
}

func (c *clusterFlags) collect(ctx context.Context, sink *namer) (m source.Manifest, err error) {
	config, err := kubeapi.Find(c.kubeconfig, c.context)
	if err != nil {
		return m, err
	}
	sink.servers = append(sink.servers, config.Server)
	client, err := kubeapi.New(config)
	if err != nil {
		return m, err
	}
	defer client.Close()
	roots, err := rootsOf(config)
	if err != nil {
		return m, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("read cluster: not done within %s; raise --timeout", c.timeout))
	defer cancel()
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return collect.Cluster(ctx, client, config.Server, sink, collect.TLS(roots, host))
}

// rootsOf are the authorities that the kubeconfig trusts; nil where it leaves that
// to the system.
func rootsOf(config kubeapi.Config) (*x509.CertPool, error) {
	pem := config.CAData
	if len(pem) == 0 && config.CAFile != "" {
		var err error
		if pem, err = file.Read(config.CAFile, 1<<20); err != nil {
			return nil, fmt.Errorf("read authorities: %w", err)
		}
	}
	if len(pem) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("read authorities: no certificate in PEM")
	}
	return pool, nil
}

func collectCommand() *cobra.Command {
	var c clusterFlags
	var e etcdFlags
	var node bool
	var out, root string
	cmd := &cobra.Command{
		Use:   "collect -o bundle.tgz",
		Short: "Read a cluster or this machine into a bundle, without credentials",
		Long: `Read a cluster or this machine into a bundle, without credentials.

With --kubeconfig the lists and ConfigMaps that deploy/check-role.yaml grants are
read, and the addresses of apiservers are asked for their certificates; names among
them are looked up at each name server. With --node
this machine's settings are read, and the members of its etcd are asked for their
status where it has credentials for that. Both may be given. Values that look like
credentials are taken out; Secrets are never asked for.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case out == "":
				return errors.New("check collect: -o: missing; name the bundle to write")
			case !c.given() && !node:
				return errors.New("check collect: nothing to read; give --kubeconfig, --in-cluster or --node")
			}
			if !node {
				root = ""
			}
			return collectTo(cmd.Context(), &c, e, root, out)
		},
	}
	c.bind(cmd.Flags())
	e.bind(cmd.Flags())
	cmd.Flags().BoolVar(&node, "node", false, "read this machine's settings")
	cmd.Flags().StringVar(&root, "root", "/", "where this machine's file system begins")
	cmd.Flags().StringVarP(&out, "output", "o", "", "the bundle to write")
	return cmd
}

// collectTo writes the bundle in one piece: what fails half way leaves no file that
// looks like one. Root is "" where the machine itself is left out.
func collectTo(ctx context.Context, c *clusterFlags, e etcdFlags, root, out string) error {
	var b bytes.Buffer
	w := source.NewWriter(&b, time.Now())
	names := newNamer(w)
	m := source.Manifest{States: map[string]source.Stated{}} // versioned by the writer
	if c.given() {
		var err error
		if m, err = c.collect(ctx, names); err != nil {
			return err
		}
	}
	if root != "" {
		states, err := collect.Node(ctx, root, names)
		if err != nil {
			return err
		}
		for key, s := range states {
			m.States[key] = s
		}
	}
	if err := e.read(ctx, root, w, m.States); err != nil {
		return err
	}
	if c.given() || root == "/" {
		if err := names.lookUp(ctx, m.States); err != nil {
			return err
		}
	}
	if err := w.Close(m); err != nil {
		return err
	}
	if err := os.WriteFile(out, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}
