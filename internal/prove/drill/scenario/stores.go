package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// TargetStore is the target of a path to the log store of the client's site, and
// KindQuery asks it how many lines it knows of.
const (
	TargetStore = "store"
	KindQuery   = "query"
)

// DefaultPatience is how long VictoriaLogs waits for a shard before it fails the
// query whole.
const DefaultPatience = 30 * time.Second

// storesFail is for how long queries are sent that have failed by the end of the hold:
// what is lost later is answered after the heal.
const storesFail = 5 * time.Second

// Stores puts a log store and its collector into sites: a fixture that stands for
// systems which shard. In the run with the remedy every store has all lines and a
// query asks the one of its site; in the other a line is in one of them, and a
// query asks all and fails whole where one does not answer.
type Stores struct {
	Sites []string `yaml:"sites,omitempty"`
	// Patience is how long a query waits for a shard (default 30 s).
	Patience time.Duration `yaml:"patience,omitempty"`
}

func (s Stores) fill() Stores {
	if len(s.Sites) > 0 {
		s.Patience = cmp.Or(s.Patience, DefaultPatience)
	}
	return s
}

// HasStores says whether the case has any.
func (c *Case) HasStores() bool { return len(c.Stores.Sites) > 0 }

func (c *Case) checkStores() error {
	if !c.HasStores() {
		return nil
	}
	for i, site := range c.Stores.Sites {
		if err := oneOf(fmt.Sprintf("stores.sites[%d]", i), site, c.SiteNames()); err != nil {
			return err
		}
	}
	if err := unique("stores.sites", c.Stores.Sites); err != nil {
		return err
	}
	most := c.Phases.Hold - storesFail
	switch {
	case len(c.Stores.Sites) < 2:
		return fmt.Errorf("stores.sites: %s alone shards nothing; name two sites or more", c.Stores.Sites[0])
	case c.Stores.Patience < time.Second || c.Stores.Patience > most:
		return fmt.Errorf("stores.patience: %s is out of range; choose 1s to %s, which is %s less than the hold", c.Stores.Patience, most, storesFail)
	}
	return nil
}

// checkQuery refuses a query that nobody answers, or whose failure is not awaited.
func (c *Case) checkQuery(at string, p Path) error {
	switch {
	case !slices.Contains(c.Stores.Sites, p.Site):
		return fmt.Errorf("%s.sites: site %s has no store; choose one of %s", at, p.Site, cmp.Or(strings.Join(c.Stores.Sites, ", "), "stores.sites, which is empty"))
	case p.Timeout <= c.Stores.Patience:
		return fmt.Errorf("%s.timeout: %s is over before the store fails a query; choose more than its patience of %s", at, p.Timeout, c.Stores.Patience)
	}
	return nil
}
