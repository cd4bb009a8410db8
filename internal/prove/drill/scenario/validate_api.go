package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// IsAPI says whether a kind of path asks an apiserver.
func IsAPI(kind string) bool { return slices.Contains(apiKinds, kind) }

// IsHTTP says whether a kind of path is a request over HTTP.
func IsHTTP(kind string) bool { return IsAPI(kind) || kind == kindWeb || kind == KindQuery }

// checkAgents refuses agents that do not exist or have nothing to do.
func (c *Case) checkAgents() error {
	for _, a := range c.Agents {
		if err := oneOf("agents", a, []string{AgentLeader, AgentBalance, AgentSlices, AgentZonal, AgentEtcdBalance, AgentVIP, AgentFront, AgentPair, AgentArbiter, AgentNone}); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat([]string{apiserverGroup}, siteAgents, nodeAgents) {
		if slices.Contains(c.ClusterNames(), name) {
			return fmt.Errorf("clusters: %q is what faults call the %s of a site; rename the cluster", name, name)
		}
	}
	for _, name := range roles {
		if slices.Contains(c.SiteNames(), name) {
			return fmt.Errorf("lab.sites: %q is a word for targets; rename the site", name)
		}
	}
	switch {
	case c.Agents.Has(AgentNone) && len(c.Agents) > 1:
		return fmt.Errorf("agents: none stands beside others; leave it out")
	case c.Agents.Has(AgentBalance) && !c.APIServers:
		return fmt.Errorf("agents: balance has nothing to balance; add apiservers: true")
	case c.EtcdCheck < 0 || c.EtcdCheck > time.Minute:
		return fmt.Errorf("etcdCheck: %s is out of range; choose up to 1m, or 0s for upstream's 2s", c.EtcdCheck)
	}
	return c.Balance.check()
}

func (b Balance) check() error {
	for _, bounds := range []struct {
		field string
		b     *Bounds
	}{{"transitions", b.Transitions}, {"resets", b.Resets}} {
		if err := bounds.b.check("balance." + bounds.field); err != nil {
			return err
		}
	}
	return oneOf("balance.without", b.Without, []string{"", ProfileAnchors, ProfileSeed, ProfileHAProxy, ProfileNone})
}

// checkServer refuses a path whose server the lab does not have.
func (c *Case) checkServer(at string, p Path) error {
	switch {
	case !IsHTTP(p.Kind) && p.Kind != KindConnect && !slices.Contains(roles, p.Target) && slices.Contains(c.SiteNames(), p.Target) && !slices.Contains(c.MemberSites(p.Cluster), p.Target):
		return fmt.Errorf("%s.targets: %s has no member of %s; choose one of %s", at, p.Target, p.Cluster, strings.Join(c.MemberSites(p.Cluster), ", "))
	case IsAPI(p.Kind) && !c.APIServers:
		return fmt.Errorf("%s.kinds: %s has no apiserver to ask; add apiservers: true", at, p.Kind)
	case p.Balanced() && !c.Agents.Has(AgentBalance):
		return fmt.Errorf("%s.targets: there is no balancer; add balance to agents", at)
	case p.Balanced() && c.Balance.Without == ProfileNone:
		return fmt.Errorf("%s.targets: the run without the agents has no balancer; write balance: {without: anchors}, or ask the service", at)
	case p.Balanced() && !IsAPI(p.Kind):
		return fmt.Errorf("%s.kinds: a balancer serves no %s; choose one of %s", at, p.Kind, strings.Join(apiKinds, ", "))
	}
	return nil
}

// checkUnready accepts apiservers alone.
func (c *Case) checkUnready(targets []string) error {
	for _, target := range targets {
		procs, err := c.Resolve(target)
		if err != nil {
			return err
		}
		if len(procs) != 1 || !procs[0].IsAPIServer() {
			return fmt.Errorf("unready: %q is no apiserver; write %s/SITE", target, apiserverGroup)
		}
	}
	return nil
}

// checkClean refuses what only a clean path can be held to.
func (e Expectation) checkClean() error {
	switch {
	case (e.Failed != nil || e.Gaps != nil) && e.Role != RoleClean:
		return fmt.Errorf("failed, gaps: they bound clean paths, not %s ones; remove them", e.Role)
	case e.Failed != nil && *e.Failed < 0 || e.Gaps != nil && *e.Gaps < 0:
		return fmt.Errorf("failed, gaps: negative; write 0 for none")
	case e.FailedAfter != nil && (*e.FailedAfter < 0 || e.Role != RoleClean && e.Role != RoleAffected):
		return fmt.Errorf("failedAfter: %d of a path with role %s; write 0 or more, for a path that is judged", *e.FailedAfter, e.Role)
	case e.FailWithin < 0 || e.FailWithin > 0 && e.Role != RoleClean && e.Role != RoleAffected:
		return fmt.Errorf("failWithin: %s of a path that is not judged; remove it", e.FailWithin)
	case e.Role == RoleClean && !slices.Contains([]string{"", Any, Half, Never}, e.Without):
		return fmt.Errorf("without: %q of a clean path; write any, half or never, or leave it out to judge the run without the agents alike", e.Without)
	}
	return nil
}
