package slices

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	stdslices "slices"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	// learnEvery is how often the own Node is read for its addresses, which
	// change when somebody changes them; detectEvery the same for the datapath.
	learnEvery  = 5 * time.Minute
	detectEvery = 10 * time.Minute
	// learnAgain follows what could not be found out.
	learnAgain = 5 * time.Second
)

// learn finds out where clients reach the own apiserver.
func (a *agent) learn(ctx context.Context) {
	if len(a.settings.Addresses) > 0 {
		a.setOwn(fixed(a.settings.Addresses))
		return
	}
	for {
		wait := learnEvery
		if err := a.askNode(ctx); err != nil {
			wait = learnAgain
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// fixed are the addresses of the settings, which were checked.
func fixed(texts []string) []plan.Address {
	var all []plan.Address
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil {
			all = append(all, addressOf(ip))
		}
	}
	return all
}

// askNode reads the addresses from the Node. Those that were known stay while it
// cannot be read or has none.
func (a *agent) askNode(ctx context.Context) error {
	name := a.settings.Node
	client, err := a.cluster.Client()
	if err != nil {
		return err
	}
	object, err := get[core.Node](ctx, client, nodesPath+"/"+url.PathEscape(name))
	if err != nil {
		if right, text := denied(err); text != "" {
			a.problems.set(codeDenied, right, text)
		}
		return err
	}
	missing := ""
	if object == nil {
		missing = fmt.Sprintf("there is no Node named %s: set node to the name that kubectl get nodes shows for this machine", name)
	}
	a.problems.set(codeNodeGone, name, missing)
	if object == nil {
		return fmt.Errorf("%s", missing)
	}
	addresses := internalIPs(object)
	none := ""
	if len(addresses) == 0 {
		none = fmt.Sprintf("Node %s has no InternalIP: set addresses to where clients reach its apiserver", name)
	}
	a.problems.set(codeAddress, name, none)
	if len(addresses) == 0 {
		return fmt.Errorf("%s", none)
	}
	a.setOwn(addresses)
	return nil
}

func (a *agent) setOwn(addresses []plan.Address) {
	a.mu.Lock()
	same := stdslices.Equal(a.own, addresses)
	a.own = addresses
	a.mu.Unlock()
	if same {
		return
	}
	var own []string
	for _, each := range addresses {
		own = append(own, net.JoinHostPort(each.IP, strconv.Itoa(a.settings.Port)))
	}
	a.dialer.also(own)
	a.loop.Nudge()
}

// detect finds out which trafficDistribution keeps traffic in its zone here.
func (a *agent) detect(ctx context.Context) {
	for {
		wait := detectEvery
		if err := a.askDatapath(ctx); err != nil {
			wait = learnAgain
			if _, text := denied(err); text != "" {
				wait = detectEvery
			}
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

func (a *agent) askDatapath(ctx context.Context) error {
	client, err := a.cluster.Client()
	if err != nil {
		return err
	}
	found, err := datapath.Detect(ctx, client, a.settings.Datapath)
	if err != nil && found.Server.Git == "" {
		return err // nothing is known yet, or what was stays
	}
	doubt := ""
	if err != nil {
		doubt = fmt.Sprintf("it could not be found out what carries service traffic (%v): trafficDistribution is set to %s; set datapath to kube-proxy, cilium or cilium-1.19", err, found.Prefer())
	}
	a.problems.set(codeDatapath, "datapath", doubt)
	a.mu.Lock()
	same := a.traffic == found
	a.traffic = found
	a.mu.Unlock()
	if !same {
		a.log.Info("datapath", "is", found.String(), "traffic_distribution", found.Prefer())
		a.loop.Nudge()
	}
	return err
}
