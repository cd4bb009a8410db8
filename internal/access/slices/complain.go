package slices

import (
	"fmt"
	"net/http"
	stdslices "slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// complain states what keeps the agent from its work beside what plan knows of.
func (a *agent) complain() {
	a.complainOfAPI()
	a.complainOfApiserver()
	if !a.world.complete() {
		return
	}
	s := a.world.look()
	a.complainOfService(&s)
	a.complainOfClocks()
	a.problems.expire(codeWrite, deniedLasts)
	identity := ""
	if a.ownIdentity() == "" {
		identity = fmt.Sprintf("no identity Lease in %s has the label kubernetes.io/hostname=%s: if this node dies its endpoint stays ready; set apiserver.identity to the host name of its apiserver",
			leaseNamespace, strings.Join(stdslices.Compact(stdslices.Clone(a.hosts)), " or "))
	}
	// An apiserver that has never been ready has no Lease yet.
	if me := a.me(); me.Health == plan.Unknown {
		identity = ""
	}
	a.problems.set(codeIdentity, a.settings.Node, identity)
}

// complainOfService compares the families of the Service with the own addresses.
func (a *agent) complainOfService(s *sight) {
	missing, families := "", ""
	me := a.me()
	switch {
	case s.service == nil && a.world.has(ofService):
		missing = "there is no Service default/kubernetes; an apiserver makes it anew within seconds"
	case s.service != nil && len(me.Addresses) > 0:
		for _, f := range s.service.Spec.IPFamilies {
			if !stdslices.ContainsFunc(me.Addresses, func(o plan.Address) bool { return string(o.Family) == string(f) }) {
				families = fmt.Sprintf("the Service kubernetes is of family %s and node %s publishes no such address: give its Node one, or set addresses", f, me.Node)
			}
		}
	}
	a.problems.set(codeService, plan.ServiceName, missing)
	a.problems.set(codeFamily, me.Node, families)
}

// mostSkew is a difference of clocks that a person should know of: certificates
// and logs are read by them. Nothing here is.
const mostSkew = 5 * time.Second

func (a *agent) complainOfClocks() {
	var all []plan.Problem
	for _, l := range a.world.signals() {
		if l.Role != plan.Agent || l.Node == a.settings.Node || l.skew.Abs() < mostSkew {
			continue
		}
		all = append(all, plan.Problem{Code: codeSkew, Object: l.Node, Text: fmt.Sprintf(
			"the clock of node %s differs from this one's by %s: synchronise them (chrony); endpoints do not depend on it", l.Node, l.skew.Abs().Round(time.Second))})
	}
	a.problems.replace([]string{codeSkew}, all)
}

// complainOfApiserver tells of the own one.
func (a *agent) complainOfApiserver() {
	v := a.checker.Verdict()
	unready, unknown, credentials := "", "", ""
	switch me := a.me(); {
	case me.Health == plan.Unready:
		unready = fmt.Sprintf("the apiserver of node %s is %s%s", a.settings.Node, v.Grade, because(v.Reason))
	case v.CredentialsRefused:
		unknown = fmt.Sprintf("the apiserver of node %s answers but does not say whether it is ready%s: give apiserver.cert and key, or tokenFile, of an account that may get /readyz", a.settings.Node, because(v.Reason))
	}
	if err := a.method.Err(); err != nil {
		credentials = "apiserver: " + err.Error()
	}
	a.problems.set(codeApiserver, a.settings.Node, unready)
	a.problems.set(codeUnknown, a.settings.Node, unknown)
	a.problems.set(codeCredentials, a.settings.Node, credentials)
	a.ready.Set(condApiserver, a.apiserverKnown())
}

func (a *agent) apiserverKnown() error {
	if a.me().Health == plan.Unknown {
		return fmt.Errorf("not known whether it is ready%s", because(a.checker.Verdict().Reason))
	}
	return nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// reported notes the outcome of a watch's request.
func (a *agent) reported(c collection, err error) {
	a.mu.Lock()
	f, was := a.failing[c]
	switch {
	case err == nil:
		delete(a.failing, c)
	case was:
		a.failing[c] = failure{err, f.since}
	default:
		a.failing[c] = failure{err, time.Now()}
		time.AfterFunc(patience, a.loop.Nudge)
	}
	a.mu.Unlock()
	a.complainOfAPI()
}

// failure is a collection that cannot be read.
type failure struct {
	err   error
	since time.Time
}

// deniedLasts is when a right that is no longer missed counts as granted: what is
// refused is tried again every half minute.
const deniedLasts = 90 * time.Second

// patience is how long the API may be unreachable before a person hears of it: a
// watch that has to turn to another server takes a part of it.
const patience = 4 * time.Second

// complainOfAPI tells what cannot be read.
func (a *agent) complainOfAPI() {
	a.mu.Lock()
	var worst error
	refused := map[string]string{}
	for c := range collections {
		err := a.failing[c].err
		if err == nil || kubeapi.Code(err) != http.StatusForbidden && time.Since(a.failing[c].since) < patience {
			continue
		}
		if right, text := denied(err); text != "" {
			refused[right] = text
			if c != ofNodes && c != ofService && c != ofEndpoints && worst == nil {
				worst = err
			}
			continue
		}
		worst = fmt.Errorf("read %s: %w", c, err)
	}
	a.mu.Unlock()
	unreachable := ""
	if worst != nil {
		if _, text := denied(worst); text == "" {
			unreachable = fmt.Sprintf("the API does not answer (%s): %v; endpoints stay as they are: see whether one of these is reached from here, and name in api.servers those that are",
				strings.Join(a.settings.API.Servers, ", "), worst)
		}
	}
	a.problems.set(codeAPI, "api", unreachable)
	a.problems.expire(codeDenied, deniedLasts)
	for right, text := range refused {
		a.problems.set(codeDenied, right, text)
	}
	if missing := a.world.missing(); worst == nil && missing != "" {
		worst = fmt.Errorf("%s not read yet", missing)
	}
	a.ready.Set(condAPI, worst)
}

// planProblems are those that plan knows of. A reconciler that was seen writing
// counts as active while it is asked once more: that is no news.
func (a *agent) planProblems(cfg *plan.Settings, s *sight, self *plan.Self, facts *plan.Facts) []plan.Problem {
	now := *facts
	asking := now.Phase == plan.Unprobed || now.Phase == plan.Probing
	if asking && a.problems.has(plan.ReconcilerActive, plan.ServiceName) {
		now.Phase = plan.Active
	}
	return plan.Problems(cfg, self, &s.view, &now)
}

// judgeReady keeps the condition that the own endpoint is there.
func (a *agent) judgeReady(s *sight, self *plan.Self, facts *plan.Facts) {
	a.ready.Set(condPublished, published(s, self, facts))
}

func published(s *sight, self *plan.Self, facts *plan.Facts) error {
	switch {
	case facts.Rival != "":
		return fmt.Errorf("another agent has the Lease of node %s", self.Node)
	case self.Zone == "":
		return fmt.Errorf("node %s has no zone", self.Node)
	case len(self.Addresses) == 0:
		return fmt.Errorf("the addresses of node %s are not known", self.Node)
	}
	for _, address := range self.Addresses {
		name := plan.SliceName(self.Node, address.Family)
		i := stdslices.IndexFunc(s.view.Slices, func(o plan.Slice) bool { return o.Name == name && o.Owner == plan.Ours })
		if i < 0 {
			return fmt.Errorf("endpointslice %s is not there", name)
		}
		if o := &s.view.Slices[i]; o.Address != address.IP || o.Zone != self.Zone || o.Odd {
			return fmt.Errorf("endpointslice %s does not say what it should", name)
		}
	}
	return nil
}
