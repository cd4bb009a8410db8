package slices

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	stdslices "slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/access/slices/landing"
	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	// defaultCount leaves nothing to chance with endpoints in two zones or more.
	defaultCount = 20
	// mostCount is what an apiserver is asked to bear for a look.
	mostCount = 500
	// readTries is how often the API is asked: in a pod without further settings
	// that goes over the very path that is looked at.
	readTries = 3
)

// PathVersion is the schema version of PathReport.
const PathVersion = 1

// PathReport is what `holdfast slices path --json` prints.
type PathReport struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
	Zone    string `json:"zone"`
	// Service is where the connections were made to.
	Service string `json:"service"`
	landing.Result
}

func pathCommand() *cobra.Command {
	settings, file := defaultSettings(), ""
	settings.API.Servers, settings.API.Kubeconfig = nil, os.Getenv("KUBECONFIG")
	w := walk{count: defaultCount, settle: landing.Settle}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "path",
		Short: "See that connections of this node to the API stay in its zone",
		Long: "Make some connections from this node to the address of the Service kubernetes, and say which\n" +
			"endpoints they land on, by the certificates these show. Nothing is asked and nobody is\n" +
			"authenticated. For any node, on the network of its host. Exit code 1 says that connections\n" +
			"leave the zone, 2 that it cannot be told.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Layer(cmd, envPrefix, &file, &settings); err != nil {
				return err
			}
			if err := w.complete(&settings); err != nil {
				return err
			}
			w.note = cmd.ErrOrStderr()
			r, err := w.look(cmd.Context())
			if err != nil {
				return err
			}
			if err := r.show(cmd.OutOrStdout(), asJSON); err != nil {
				return err
			}
			return r.code()
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "settings file (YAML) of the agent, for node, servers and credentials")
	f.StringVar(&settings.Node, "node", settings.Node, "name of the Node (default: the host's name)")
	f.StringVar(&settings.Datapath, "datapath", settings.Datapath, "auto, kube-proxy, cilium or cilium-1.19")
	f.StringSliceVar(&settings.API.Servers, "server", settings.API.Servers, "URLs of the API, asked in this order (default: that of the credentials)")
	f.StringVar(&settings.API.Kubeconfig, "kubeconfig", settings.API.Kubeconfig, "credentials for the API (default: $KUBECONFIG, else the pod's service account)")
	f.StringVar(&settings.API.Context, "context", settings.API.Context, "context of the kubeconfig")
	f.IntVar(&w.count, "count", w.count, "how many connections to make")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// walk looks where connections of a node land.
type walk struct {
	node, datapath string
	count          int
	cluster        *kubeapi.Cluster
	// settle is how long endpoints must stand still for a stray to count.
	settle time.Duration
	note   io.Writer
}

func (w *walk) complete(s *Settings) error {
	if w.count < 1 || w.count > mostCount {
		return fmt.Errorf("--count %d: write a number from 1 to %d", w.count, mostCount)
	}
	if err := s.checkNode(); err != nil {
		return err
	}
	if _, _, err := datapath.Parse(s.Datapath); err != nil {
		return err
	}
	if len(s.API.Servers) > 0 {
		if err := s.checkServers(); err != nil {
			return err
		}
	}
	w.node, w.datapath = s.Node, s.Datapath
	w.cluster = &kubeapi.Cluster{Kubeconfig: s.API.Kubeconfig, Context: s.API.Context, Servers: s.API.Servers}
	return nil
}

// scene is what was read for a walk.
type scene struct {
	path
	zone, traffic string
}

// look makes the connections. A stray counts when it is seen once more after the
// endpoints have stood still: the datapath may not have heard of them before.
func (w *walk) look(ctx context.Context) (PathReport, error) {
	s, err := w.read(ctx)
	if err != nil {
		return PathReport{}, err
	}
	r := w.try(ctx, &s)
	if r.Verdict != landing.Strays {
		return w.report(&s, r), ctx.Err()
	}
	_, _ = fmt.Fprintf(w.note, "some connections left zone %s; looking again in %s, for endpoints may have just changed\n", s.zone, w.settle)
	if !pause(ctx, w.settle) {
		return PathReport{}, ctx.Err()
	}
	now, err := w.read(ctx)
	if err != nil {
		return PathReport{}, err
	}
	r = w.try(ctx, &now)
	if !stdslices.EqualFunc(s.endpoints, now.endpoints, sameLanding) && r.Verdict == landing.Strays {
		r.Verdict, r.Reason = landing.Unclear, "the endpoints changed meanwhile: try again when they stand still"
	}
	return w.report(&now, r), ctx.Err()
}

func sameLanding(a, b landing.Endpoint) bool {
	return a.Address == b.Address && a.Ready == b.Ready && stdslices.Equal(a.Hints, b.Hints)
}

// try asks every endpoint at its own address, then the Service.
func (w *walk) try(ctx context.Context, s *scene) landing.Result {
	t := landing.Trial{Node: w.node, Zone: s.zone, Endpoints: s.endpoints, Affinity: s.affinity, Shown: map[string]landing.Answer{}}
	own := landing.Book{}.Unknown(s.endpoints)
	for i, a := range landing.CallAll(ctx, own, kubeapi.ClusterName) {
		t.Shown[own[i]] = a
	}
	t.Got = landing.CallAll(ctx, stdslices.Repeat([]string{s.address}, w.count), kubeapi.ClusterName)
	t.Cause = landing.Cause(w.detect(ctx), s.traffic)
	return t.Judge()
}

// detect finds out what carries the traffic; what cannot be found out is Unknown.
func (w *walk) detect(ctx context.Context) datapath.Datapath {
	client, err := w.cluster.Client()
	if err != nil {
		return datapath.Datapath{}
	}
	found, _ := datapath.Detect(ctx, client, w.datapath)
	return found
}

func (w *walk) report(s *scene, r landing.Result) PathReport {
	return PathReport{Version: PathVersion, Node: w.node, Zone: s.zone, Service: s.address, Result: r}
}

func (w *walk) read(ctx context.Context) (s scene, err error) {
	for range readTries {
		var client *kubeapi.Client
		if client, err = w.cluster.Client(); err != nil {
			return scene{}, err
		}
		s, err = readScene(ctx, client, w.node)
		if err == nil || ctx.Err() != nil || errors.Is(err, errNoNode) {
			return s, err
		}
		if _, text := denied(err); text != "" {
			return s, errors.New(text)
		}
	}
	return s, fmt.Errorf("read endpoints: %w; name with --server an apiserver that answers here", err)
}

// errNoNode says that there is no Node of that name.
var errNoNode = errors.New("set --node to the name that kubectl get nodes shows for this machine")

// readScene reads what the API has now.
func readScene(ctx context.Context, client *kubeapi.Client, node string) (scene, error) {
	var all slicesList
	if err := list(ctx, client, slicesPath, slicesSelector, &all); err != nil {
		return scene{}, err
	}
	service, err := readService(ctx, client)
	if err != nil {
		return scene{}, err
	}
	own, err := get[core.Node](ctx, client, nodesPath+"/"+url.PathEscape(node))
	switch {
	case err != nil:
		return scene{}, err
	case own == nil:
		return scene{}, fmt.Errorf("there is no Node named %s: %w", node, errNoNode)
	}
	var items []*discovery.EndpointSlice
	for i := range all.Items {
		items = append(items, &all.Items[i])
	}
	p, err := pathOver(service, items)
	if err != nil {
		return scene{}, err
	}
	return scene{path: p, zone: own.Labels[core.LabelTopologyZone], traffic: deref(service.Spec.TrafficDistribution)}, nil
}

// readService lists what it could get, for that is all that kube-proxy's own
// account may, which is at hand on any node.
func readService(ctx context.Context, client *kubeapi.Client) (*core.Service, error) {
	data, err := client.Get(ctx, servicesPath, url.Values{"fieldSelector": {combinedFields}})
	if err != nil {
		return nil, err
	}
	all, err := readObject[struct{ Items []core.Service }](servicesPath, data)
	if err != nil || len(all.Items) == 0 {
		return nil, err
	}
	return &all.Items[0], nil
}

// code is the exit code, with the verdict in words.
func (r *PathReport) code() error {
	switch r.Verdict {
	case landing.Kept:
		return nil
	case landing.Strays:
		return exit.With(exit.Failed, errors.New(r.Reason))
	}
	return exit.With(exit.Unknown, errors.New(r.Reason))
}

func (r *PathReport) show(out io.Writer, asJSON bool) error {
	if !asJSON {
		return r.print(out)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("print path: %w", err)
	}
	return nil
}

// print writes the report for people.
func (r *PathReport) print(out io.Writer) error {
	zone := cmp.Or(r.Zone, "-")
	_, _ = fmt.Fprintf(out, "node %s, zone %s: %d connections to %s\n\n", r.Node, zone, r.Count, r.Service)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "ENDPOINT\tNODE\tZONE\tREADY\tHINTED FOR %s\tCERTIFICATE\tCONNECTIONS\n", zone)
	for i := range r.Rows {
		e := &r.Rows[i]
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", e.Address, cmp.Or(e.Node, "-"), cmp.Or(e.Zone, "-"),
			word(e.Ready, "ready"), word(e.Hinted, "yes"), cmp.Or(e.Certificate, "no answer"), e.Connections)
	}
	if r.Strangers > 0 {
		_, _ = fmt.Fprintf(t, "(somebody else)\t\t\t\t\t\t%d\n", r.Strangers)
	}
	if r.Lost > 0 {
		_, _ = fmt.Fprintf(t, "(lost)\t\t\t\t\t\t%d\n", r.Lost)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print path: %w", err)
	}
	if r.LostBy != "" {
		_, _ = fmt.Fprintf(out, "lost: %s\n", r.LostBy)
	}
	_, err := fmt.Fprintf(out, "\n%s: %s\n", r.Verdict, r.Reason)
	if err != nil {
		return fmt.Errorf("print path: %w", err)
	}
	return nil
}

func word(is bool, yes string) string {
	if is {
		return yes
	}
	return "no"
}
