package slices

import (
	"context"
	"math/rand/v2"
	stdslices "slices"
	"sync"
	"time"

	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/landing"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	// openings are connections soon after the start, openingEvery apart: enough
	// to find a kube-proxy that passes over the hints of three zones, in 99.6 of
	// 100 starts.
	openings     = 5
	openingEvery = time.Second
	// idleEvery is how often is looked whether a connection would tell anything,
	// while it would not; that costs no request.
	idleEvery = 2 * time.Second
	// askEvery is how often an endpoint is asked for its certificate at most.
	askEvery = 5 * time.Minute
	// pathJitter is by how much of the period a connection may come later.
	pathJitter = 0.2
)

// course follows where connections of the own node land. Watching is all it is
// for: nothing is decided by it.
type course struct {
	mu    sync.Mutex
	watch landing.Watch

	// Of the goroutine that makes the connections.
	book  landing.Book
	asked map[string]time.Duration // when an endpoint was asked
}

func newCourse() *course {
	return &course{book: landing.Book{}, asked: map[string]time.Duration{}}
}

// follow makes connections to the Service now and then.
func (a *agent) follow(ctx context.Context) {
	period := a.settings.Path.Period
	if period == 0 {
		return
	}
	left, wait := openings, openingEvery
	for pause(ctx, wait) {
		switch {
		case !a.step(ctx):
			wait = min(idleEvery, period)
		case left > 0:
			left--
			wait = min(openingEvery, period)
		default:
			wait = period + time.Duration(rand.Float64()*pathJitter*float64(period))
		}
	}
}

// observePath takes in what is expected now, and where that is.
func (a *agent) observePath() (path, bool) {
	s := a.world.look()
	var all []*discovery.EndpointSlice
	for _, o := range s.raw {
		all = append(all, o)
	}
	p, err := pathOver(s.service, all)
	node := a.settings.Node
	zone, _, _ := a.world.zoneOf(node)
	expected := landing.Expect(node, zone, p.endpoints)
	if err != nil || p.affinity {
		expected = landing.Expectation{Doubt: "no path that could be told"}
	}
	a.mu.Lock()
	cause := landing.Cause(a.traffic, s.view.Service.Traffic)
	a.mu.Unlock()
	a.course.mu.Lock()
	defer a.course.mu.Unlock()
	now := a.now()
	a.course.watch.See(now, expected)
	a.problems.set(codeIgnored, node, a.course.watch.Complaint(node, zone, cause))
	return p, a.course.watch.Ready(now)
}

// step makes one connection, unless it would tell nothing.
func (a *agent) step(ctx context.Context) bool {
	p, ready := a.observePath()
	if !ready {
		return false
	}
	a.ask(ctx, a.course.book.Unknown(p.endpoints))
	began := a.now()
	answer := landing.Call(ctx, p.address, kubeapi.ClusterName)
	who := a.course.book.Who(answer.Print)
	if answer.Err == nil && len(who) == 0 {
		// A certificate was renewed.
		a.ask(ctx, landing.Book{}.Unknown(p.endpoints))
		who = a.course.book.Who(answer.Print)
	}
	if answer.Err != nil {
		who = nil
	}
	a.course.book.Keep(p.endpoints)
	if ctx.Err() != nil {
		return true
	}
	a.observePath()
	a.stats.landed(a.conclude(ctx, began, who))
	a.observePath()
	return true
}

// conclude notes what a connection told. What is expected is read anew before
// somebody is blamed.
func (a *agent) conclude(ctx context.Context, began time.Duration, who []string) landing.Outcome {
	c := a.course
	c.mu.Lock()
	told := c.watch.Weigh(began, who)
	c.mu.Unlock()
	if told == landing.Strayed {
		now, err := a.readExpected(ctx)
		c.mu.Lock()
		known := err == nil && c.watch.Expects(now)
		c.mu.Unlock()
		if !known {
			return landing.Silent
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watch.Note(began, a.now(), who)
}

// readExpected asks the API what is expected, which answers from etcd.
func (a *agent) readExpected(ctx context.Context) (landing.Expectation, error) {
	client, err := a.cluster.Client()
	if err != nil {
		return landing.Expectation{}, err
	}
	s, err := readScene(ctx, client, a.settings.Node)
	if err != nil {
		return landing.Expectation{}, err
	}
	return landing.Expect(a.settings.Node, s.zone, s.endpoints), nil
}

// ask learns the certificates of endpoints that were not asked lately.
func (a *agent) ask(ctx context.Context, addresses []string) {
	now := a.now()
	due := stdslices.DeleteFunc(stdslices.Clone(addresses), func(address string) bool {
		at, was := a.course.asked[address]
		return was && now-at < askEvery
	})
	for i, answer := range landing.CallAll(ctx, due, kubeapi.ClusterName) {
		a.course.asked[due[i]] = now
		if answer.Err == nil {
			a.course.book[due[i]] = answer.Print
		}
	}
}

// pathState is what is known of the own node, in a word.
func (a *agent) pathState() string {
	if a.settings.Path.Period == 0 {
		return "off"
	}
	a.course.mu.Lock()
	defer a.course.mu.Unlock()
	return a.course.watch.State().String()
}
