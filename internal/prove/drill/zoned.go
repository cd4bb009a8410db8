package drill

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

const (
	// zonedWithin bounds how long kube-proxies may take to send every pod to the
	// apiserver of its own site.
	zonedWithin = 40 * time.Second
	// zonedInRow is how many connections in a row must lead there, again and
	// again for zonedFor: a kube-proxy that knows the endpoint of its own site
	// alone looks as one that knows zones, until it writes the others, at most a
	// second later and on a busy machine two.
	zonedInRow = 8
	zonedFor   = 3 * time.Second
	// unzonedFor is how long a kube-proxy may send pods elsewhere before it is
	// started anew. That of 1.35 registers for the labels of its Node after it has
	// subscribed to them; when the one notice comes in between it never learns its
	// zone (pkg/proxy/config, NodeTopologyConfig), and passes hints over for life.
	unzonedFor = 10 * time.Second
)

// awaitZoned waits until pods are sent to the apiserver of their own site, in a
// run whose endpoints have zones: a connection that a client opened before, and
// keeps, would lead across the sites for good.
func (e *engine) awaitZoned(ctx context.Context) error {
	if !e.c.Agents.Has(scenario.AgentSlices) || !e.agents && !e.publishesSeed() {
		return nil
	}
	return e.settleZones(ctx, slices.Collect(maps.Keys(e.pods)), e.meets)
}

// awaitMirrored waits until every gateway is sent to the pod of its own site, in
// a run with mirrors.
func (e *engine) awaitMirrored(ctx context.Context) error {
	if e.gatewayService() == echoService {
		return nil
	}
	return e.settleZones(ctx, e.c.Gateway, e.serves)
}

// settleZones waits until clients of sites meet the server of their own site.
// meets says which site a new connection leads to.
func (e *engine) settleZones(ctx context.Context, sites []string, meets func(ctx context.Context, site string) (string, error)) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, site := range sites {
		g.Go(func() error {
			if zoned(ctx, site, unzonedFor, meets) == nil {
				return nil
			}
			if err := e.renewProxy(ctx, site); err != nil {
				return err
			}
			return zoned(ctx, site, zonedWithin-unzonedFor, meets)
		})
	}
	return g.Wait()
}

// zoned waits until clients of a site meet the server of their own site for good.
func zoned(ctx context.Context, site string, patience time.Duration, meets func(ctx context.Context, site string) (string, error)) error {
	met := ""
	var err error
	var since time.Time
	if until(ctx, patience+zonedFor, func() bool {
		for range zonedInRow {
			if met, err = meets(ctx, site); err != nil || met != site {
				since = time.Time{}
				return false
			}
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) >= zonedFor
	}) {
		return nil
	}
	return fmt.Errorf("clients of %s are not sent to the server of their site within %s, but to that of %q: %w", site, patience, met, errors.Join(err, ctx.Err()))
}

// renewProxy starts the kube-proxy of a site anew.
func (e *engine) renewProxy(ctx context.Context, site string) error {
	node := e.apiservers[site].Node().Name()
	proxy, err := e.lab.KubeProxy(node)
	if err != nil {
		return err
	}
	e.w.Event(record.Event{
		At: e.clock.now(), Source: "engine", Kind: record.KindRenewed,
		Message: "kube-proxy of " + node + " passes zones over and is started anew", Keys: map[string]string{"process": "kube-proxy-" + node},
	})
	if err := proxy.Stop(ctx); err != nil {
		return err
	}
	return proxy.Start(ctx)
}

// meets is the site of the apiserver that a new connection from the pod of a
// site leads to: each has a certificate with the name of its node.
func (e *engine) meets(ctx context.Context, site string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := e.pods[site].DialContext(ctx, "tcp", serviceAddress)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	own := e.apiservers[site]
	conf, err := own.TLS(own.PKI().AdminCert, own.PKI().AdminKey)
	if err != nil {
		return "", err
	}
	conf.ServerName = serviceHost
	session := tls.Client(conn, conf)
	if err := session.HandshakeContext(ctx); err != nil {
		return "", err
	}
	names := session.ConnectionState().PeerCertificates[0].DNSNames
	for other, a := range e.apiservers {
		if slices.Contains(names, a.Node().Name()) {
			return other, nil
		}
	}
	return "", fmt.Errorf("no apiserver has the names %v", names)
}

// serves is the site of the pod that answers through the gateway of a site.
func (e *engine) serves(ctx context.Context, site string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	node, err := e.nodeOf(site)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gatewayListen, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: node.DialContext, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Node string `json:"node"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("read answer of the gateway of %s: %w", site, err)
	}
	return siteOf(answer.Node), nil
}
