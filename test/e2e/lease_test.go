package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
)

// leases has three Locks, each through the apiserver of its own site; that of first
// is held when its apiserver loses etcd.
func (m *mirrored) leases(first string) {
	m.t.Helper()
	locks := map[string]*lease.Lock{}
	ctx, cancel := context.WithCancel(m.t.Context())
	var wg sync.WaitGroup
	defer func() { cancel(); wg.Wait() }()
	for _, site := range sites {
		a := m.apiserver(site)
		cluster := &kubeapi.Cluster{Kubeconfig: a.PKI().AdminConf, Servers: []string{a.URL()}, Dial: a.Node().DialContext}
		locks[site] = &lease.Lock{Client: cluster.Client, Namespace: "default", Name: "test", Identity: lease.NewIdentity(site), Duration: 5 * time.Second}
	}
	keep := func(l *lease.Lock) {
		wg.Go(func() { l.Keep(ctx, func(bool) {}, func(error) {}) })
	}
	holder := func() (sites []string) {
		for site, l := range locks {
			if l.Held() {
				sites = append(sites, site)
			}
		}
		if len(sites) > 1 {
			m.t.Errorf("%v hold the Lease", sites)
		}
		return sites
	}
	keep(locks[first])
	m.until(first+" holds the Lease", 20*time.Second, func() error {
		if len(holder()) != 1 {
			return errors.New("nobody")
		}
		return nil
	})
	for site, l := range locks {
		if site != first {
			keep(l)
		}
	}
	if err := m.apiserver(first).Detach(ctx); err != nil {
		m.t.Fatal(err)
	}
	start := time.Now()
	m.until("another holds it", 20*time.Second, func() error {
		if h := holder(); len(h) != 1 || h[0] == first {
			return fmt.Errorf("%v", h)
		}
		return nil
	})
	m.t.Logf("a Lease of 5s passes from a holder without etcd after %v", time.Since(start).Round(10*time.Millisecond))
	if err := m.apiserver(first).Attach(ctx); err != nil {
		m.t.Fatal(err)
	}
}
