package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	nameForm  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	etcdKinds = []string{"put", "get", "serializable", "watch"} // by default
	apiKinds  = []string{"api-get", "api-put", "api-watch"}
	allKinds  = slices.Concat(etcdKinds, apiKinds, []string{kindWeb, KindQuery, KindUDP, KindEcho, KindWrite, KindConnect})
	allModes  = []string{"new", "reused", "stream"}
	allRoles  = []string{RoleAffected, RoleClean, RoleControl, RoleInfo}
	allStates = []string{"", "all", "new", "established"}
	allProtos = []string{"", "all", "tcp", "udp", "vxlan"}
	allAction = []string{"", "drop", "reset", "icmp"}
)

// Validate reports the first mistake: field, value and remedy in one line.
func (s *Scenario) Validate() error {
	if s.Version != Version {
		return fmt.Errorf("version: %d is not known; write version: %d", s.Version, Version)
	}
	if err := checkName("name", s.Name); err != nil {
		return err
	}
	if s.Title == "" {
		return fmt.Errorf("title: is empty; write one line that says what breaks")
	}
	if len(s.Variants) == 0 {
		return fmt.Errorf("variants: is empty; name at least one starting position, such as {name: main, leaders: {main: a}}")
	}
	seen := map[string]bool{}
	for i, v := range s.Variants {
		if err := s.checkVariant(v); err != nil {
			return fmt.Errorf("variants[%d]: %w", i, err)
		}
		if seen[v.Name] {
			return fmt.Errorf("variants[%d].name: %q is given twice; rename one", i, v.Name)
		}
		seen[v.Name] = true
	}
	return nil
}

func (s *Scenario) checkVariant(v Variant) error {
	if err := checkName("name", v.Name); err != nil {
		return err
	}
	c, err := s.Case(v.Name)
	if err != nil {
		return err
	}
	return c.Validate()
}

// Validate reports the first mistake of a resolved case.
func (c *Case) Validate() error {
	for _, check := range []func() error{c.checkLab, c.checkClusters, c.checkAgents, c.checkKubernetes, c.checkVIP, c.checkPair, c.checkStores, c.checkService, c.Remedy.check, c.checkPhases, c.checkFaults, c.checkPaths, c.checkExpect} {
		if err := check(); err != nil {
			return err
		}
	}
	if c.Moves.Min < 0 || c.Moves.Max < c.Moves.Min {
		return fmt.Errorf("moves: min %d max %d; write 0 ≤ min ≤ max", c.Moves.Min, c.Moves.Max)
	}
	return nil
}

func (c *Case) checkLab() error {
	presets := []string{"lan", "rtt", "one-way"}
	if err := oneOf("lab.preset", c.Lab.Preset, presets); err != nil {
		return err
	}
	if err := unique("lab.sites", c.SiteNames()); err != nil {
		return err
	}
	for i, l := range c.Lab.Links {
		for _, end := range []string{l.A, l.B} {
			if err := oneOf(fmt.Sprintf("lab.links[%d]", i), end, c.SiteNames()); err != nil {
				return err
			}
		}
		if l.A == l.B || l.Loss < 0 || l.Loss > 1 || l.Delay < 0 || l.Jitter < 0 {
			return fmt.Errorf("lab.links[%d]: %s–%s is not a link; join two sites, delay ≥ 0s, loss from 0 to 1", i, l.A, l.B)
		}
	}
	return nil
}

func (c *Case) checkClusters() error {
	if err := unique("clusters", c.ClusterNames()); err != nil {
		return err
	}
	ports := map[int]string{}
	for _, k := range c.Clusters {
		for _, site := range k.Sites {
			if err := oneOf("clusters["+k.Name+"].sites", site, c.SiteNames()); err != nil {
				return err
			}
		}
		for _, port := range []int{k.ClientPort, k.PeerPort} {
			if port < 1 || port > 65535 {
				return fmt.Errorf("clusters[%s]: port %d does not exist; choose one from 1 to 65535", k.Name, port)
			}
			if other := ports[port]; other != "" {
				return fmt.Errorf("clusters[%s]: port %d is taken by cluster %s; give every cluster its own clientPort and peerPort", k.Name, port, other)
			}
			ports[port] = k.Name
		}
		if _, ok := c.Leaders[k.Name]; !ok {
			return fmt.Errorf("leaders: cluster %q has no starting leader; add %s: SITE", k.Name, k.Name)
		}
	}
	for cluster, site := range c.Leaders {
		if err := oneOf("leaders", cluster, c.ClusterNames()); err != nil {
			return err
		}
		if err := oneOf("leaders."+cluster, site, c.MemberSites(cluster)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Case) checkPhases() error {
	for _, p := range []struct {
		name string
		d    time.Duration
	}{{"baseline", c.Phases.Baseline}, {"hold", c.Phases.Hold}, {"settle", c.Phases.Settle}} {
		if p.d < time.Second || p.d > time.Hour {
			return fmt.Errorf("phases.%s: %s is out of range; choose 1s to 1h", p.name, p.d)
		}
	}
	return nil
}

func (c *Case) checkFaults() error {
	names := make([]string, len(c.Faults))
	for i, f := range c.Faults {
		names[i] = f.Name
		if err := c.checkStep(f); err != nil {
			return fmt.Errorf("faults[%d]: %w", i, err)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("faults: is empty; break something, such as {name: a-b, cuts: [{from: a, to: b}]}")
	}
	if c.Faults[0].At != 0 {
		return fmt.Errorf("faults[0].at: %s; the first fault is the origin of time, write at: 0s or leave it out", c.Faults[0].At)
	}
	return unique("faults", names)
}

func (c *Case) checkStep(f Step) error {
	switch {
	case f.At < 0 || f.At >= c.Phases.Hold:
		return fmt.Errorf("at: %s is outside the hold; choose 0s to below %s", f.At, c.Phases.Hold)
	case f.For < 0 || f.Every < 0:
		return fmt.Errorf("for, every: %s, %s; durations are not negative", f.For, f.Every)
	case f.Every > 0 && (f.For == 0 || f.For >= f.Every):
		return fmt.Errorf("every: %s with for: %s never heals; choose a for: that is shorter", f.Every, f.For)
	case len(f.Cuts)+len(f.Slow)+len(f.Kill)+len(f.Pause)+len(f.Stop)+len(f.Unready)+len(f.Off)+len(f.Release)+len(f.Drain)+len(f.Freeze)+len(f.Delete)+len(f.SlowDisk)+len(f.Claim)+len(f.GiveUp) == 0:
		return fmt.Errorf("%s: breaks nothing; give cuts, slow, kill, pause, stop, unready, off, release, drain, freeze, delete, slowDisk, claim or giveUp", f.Name)
	}
	for i, cut := range f.Cuts {
		if err := c.checkCut(cut); err != nil {
			return fmt.Errorf("cuts[%d]: %w", i, err)
		}
	}
	for i, s := range f.Slow {
		if err := c.checkSlow(s); err != nil {
			return fmt.Errorf("slow[%d]: %w", i, err)
		}
	}
	for _, target := range slices.Concat(f.Kill, f.Pause, f.Stop) {
		if _, err := c.Resolve(target); err != nil {
			return err
		}
	}
	if err := c.checkPower(f); err != nil {
		return err
	}
	if err := c.checkStruckPods(f); err != nil {
		return err
	}
	if err := c.checkSlowDisk(f); err != nil {
		return err
	}
	return c.checkUnready(f.Unready)
}

func (c *Case) checkCut(cut Cut) error {
	if err := c.checkPlace("from", cut.From); err != nil {
		return err
	}
	if cut.To != "" {
		if err := c.checkPlace("to", cut.To); err != nil {
			return err
		}
	}
	if cut.Via != "" {
		return c.checkDetour(cut)
	}
	if cut.From == cut.To {
		return fmt.Errorf("to: %q is also from:; a link joins two sites", cut.To)
	}
	if err := oneOf("state", cut.State, allStates); err != nil {
		return err
	}
	if err := oneOf("proto", cut.Proto, allProtos); err != nil {
		return err
	}
	return oneOf("action", cut.Action, allAction)
}

// checkPlace accepts a site ("a") or a node of one ("a1").
func (c *Case) checkPlace(field, v string) error {
	if slices.Contains(c.SiteNames(), strings.TrimRight(v, "0123456789")) {
		return nil
	}
	return oneOf(field, v, c.SiteNames())
}

func (c *Case) checkPaths() error {
	if len(c.Paths) == 0 {
		return fmt.Errorf("paths: match nothing; leave paths out for the default set")
	}
	for _, p := range c.Paths {
		at := "paths[" + p.Name + "]"
		for _, e := range []error{
			oneOf(at+".sites", p.Site, c.SiteNames()),
			oneOf(at+".targets", p.Target, append(c.SiteNames(), roles...)),
			oneOf(at+".clusters", p.Cluster, append(c.ClusterNames(), "")),
			oneOf(at+".kinds", p.Kind, allKinds),
			oneOf(at+".modes", p.Mode, allModes),
			c.checkServer(at, p),
			c.checkConnect(at, p),
			c.checkAddressed(at, p),
			c.checkClient(at, p),
		} {
			if e != nil {
				return e
			}
		}
		if least := p.leastInterval(); p.Interval < least || p.Timeout < p.Interval || p.Timeout > time.Minute {
			return fmt.Errorf("%s: interval %s timeout %s; choose interval ≥ %s and interval ≤ timeout ≤ 1m", at, p.Interval, p.Timeout, least)
		}
	}
	return c.checkProducts()
}

// checkProducts refuses path sets that meet at one client and target without
// forming a product of kinds and modes: a prober would fill the product up.
func (c *Case) checkProducts() error {
	groups := map[[3]string][]Path{}
	for _, p := range c.Paths {
		if IsHTTP(p.Kind) || p.Kind == KindConnect || p.Addressed() {
			continue // each kind is a target of its own for the prober
		}
		key := [3]string{p.Site, p.Cluster, p.Target}
		groups[key] = append(groups[key], p)
	}
	for key, paths := range groups {
		kinds, modes, watches := map[string]bool{}, map[string]bool{}, 0
		for _, p := range paths {
			if p.Interval != paths[0].Interval || p.Timeout != paths[0].Timeout {
				return fmt.Errorf("paths: client %s asks %s in site %s at two intervals or timeouts; give them one", key[0], key[1], key[2])
			}
			if p.Kind == "watch" {
				watches++
				continue
			}
			kinds[p.Kind], modes[p.Mode] = true, true
		}
		if len(paths)-watches != len(kinds)*len(modes) {
			return fmt.Errorf("paths: two sets meet at client %s asking %s in site %s; merge them into one with all kinds and modes", key[0], key[1], key[2])
		}
	}
	return nil
}

func (c *Case) checkExpect() error {
	if len(c.Expect) == 0 {
		return fmt.Errorf("expect: is empty; say who may notice what, such as {role: clean}")
	}
	for i, e := range c.Expect {
		if err := c.checkExpectation(e); err != nil {
			return fmt.Errorf("expect[%d].%w", i, err)
		}
		if err := c.checkHold(e); err != nil {
			return fmt.Errorf("phases.hold: %s %w of expect[%d]", c.Phases.Hold, err, i)
		}
	}
	return c.checkJudged()
}

// checkJudged refuses expectations that judge nothing: a scenario passes too
// easily when what it says of a path is never asked.
func (c *Case) checkJudged() error {
	judged := false
	for i, e := range c.Expect {
		fits := func(p Path) bool { return e.matches(p) }
		earlier := func(p Path) bool {
			return slices.ContainsFunc(c.Expect[:i], func(e Expectation) bool { return e.matches(p) })
		}
		if !slices.ContainsFunc(c.Paths, fits) {
			return fmt.Errorf("expect[%d]: %s fits no path; change its sites, targets, clusters, kinds or modes, or add such paths", i, e.Role)
		}
		if !slices.ContainsFunc(c.Paths, func(p Path) bool { return fits(p) && !earlier(p) }) {
			return fmt.Errorf("expect[%d]: %s fits only paths that earlier entries judge; move it up or remove it", i, e.Role)
		}
		judged = judged || e.Role == RoleAffected || e.Role == RoleClean
	}
	if !judged {
		return fmt.Errorf("expect: no path is affected or clean; add an entry such as {role: clean}, else nothing is judged")
	}
	return nil
}

// checkHold refuses a hold that ends before the path may be whole: nothing
// could pass.
func (c *Case) checkHold(e Expectation) error {
	if e.Role != RoleAffected || !slices.Contains(Windows(), e.Window) {
		return nil
	}
	for _, p := range c.Paths {
		if !e.matches(p) {
			continue
		}
		w, err := c.WindowOf(p, e.Window)
		if err != nil {
			return err
		}
		if least := w.Max + time.Second; c.Phases.Hold < least {
			return fmt.Errorf("is shorter than %s, which is a second more than the window %s", least, e.Window)
		}
	}
	return nil
}

func (c *Case) checkExpectation(e Expectation) error {
	if err := oneOf("role", e.Role, allRoles); err != nil {
		return err
	}
	for _, l := range []struct {
		field       string
		given, from []string
	}{
		{"sites", e.Sites, c.SiteNames()},
		{"targets", e.Targets, slices.Concat(c.SiteNames(), roles, []string{targetOwn})},
		{"clusters", e.Clusters, c.ClusterNames()},
		{"kinds", e.Kinds, allKinds},
		{"modes", e.Modes, allModes},
	} {
		for _, v := range l.given {
			if err := oneOf(l.field, v, l.from); err != nil {
				return err
			}
		}
	}
	if err := e.checkClean(); err != nil {
		return err
	}
	if e.Role != RoleAffected {
		return nil
	}
	if err := oneOf("window", e.Window, append(Windows(), Never, Any)); err != nil {
		return err
	}
	return oneOf("without", e.Without, append(Windows(), Never, Half, Any, ""))
}

func checkName(field, v string) error {
	if !nameForm.MatchString(v) {
		return fmt.Errorf("%s: %q is no name; use lower-case letters, digits and dashes, at most 40", field, v)
	}
	return nil
}

func oneOf(field, v string, from []string) error {
	if slices.Contains(from, v) {
		return nil
	}
	shown := slices.DeleteFunc(slices.Clone(from), func(s string) bool { return s == "" })
	return fmt.Errorf("%s: %q is unknown; choose one of %s", field, v, strings.Join(shown, ", "))
}

func unique(field string, names []string) error {
	seen := map[string]bool{}
	for i, n := range names {
		if err := checkName(fmt.Sprintf("%s[%d].name", field, i), n); err != nil {
			return err
		}
		if seen[n] {
			return fmt.Errorf("%s[%d].name: %q is given twice; rename one", field, i, n)
		}
		seen[n] = true
	}
	return nil
}
