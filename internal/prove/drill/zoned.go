package drill

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

const (
	// zonedWithin bounds how long kube-proxies may take to send every pod to the
	// apiserver of its own site.
	zonedWithin = 30 * time.Second
	// zonedInRow is how many connections in a row must lead there: by luck
	// alone one of three apiservers is met so often once in 6561 times.
	zonedInRow = 8
)

// awaitZoned waits until pods are sent to the apiserver of their own site, in a
// run whose endpoints have zones: a connection that a client opened before, and
// keeps, would lead across the sites for good.
func (e *engine) awaitZoned(ctx context.Context) error {
	if !e.c.Agents.Has(scenario.AgentSlices) || !e.agents && !e.publishesSeed() {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for site := range e.pods {
		g.Go(func() error {
			met := ""
			var err error
			zoned := until(ctx, zonedWithin, func() bool {
				for range zonedInRow {
					if met, err = e.meets(ctx, site); err != nil || met != site {
						return false
					}
				}
				return true
			})
			if zoned {
				return nil
			}
			return fmt.Errorf("pods of %s are not sent to its apiserver %s after its endpoint was published, but to that of %q: %w", site, zonedWithin, met, errors.Join(err, ctx.Err()))
		})
	}
	return g.Wait()
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
