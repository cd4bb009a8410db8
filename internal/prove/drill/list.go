package drill

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// listing is what `drill list --json` prints.
type listing struct {
	Version   int      `json:"version"`
	Scenarios []listed `json:"scenarios"`
}

// listed is one scenario that is built in.
type listed struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	About string `json:"about,omitempty"`
	// Sides are the runs it makes by default: without, with.
	Sides    []string        `json:"sides"`
	Variants []listedVariant `json:"variants"`
}

type listedVariant struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// HoldMS is how long the fault is in force, QuickHoldMS the same in a run with
	// the agents of a matrix that is quick.
	HoldMS      float64 `json:"hold_ms"`
	QuickHoldMS float64 `json:"quick_hold_ms"`
	// LastsMS is about how long one run takes.
	LastsMS float64 `json:"lasts_ms"`
}

func list(out io.Writer, asJSON bool) error {
	all := listing{Version: 1}
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			return err
		}
		if !asJSON {
			if _, err := fmt.Fprintf(out, "%-18s %s\n%-18s variants: %s\n", s.Name, s.Title, "", strings.Join(s.VariantNames(), ", ")); err != nil {
				return err
			}
			continue
		}
		one, err := listedOf(s)
		if err != nil {
			return err
		}
		all.Scenarios = append(all.Scenarios, one)
	}
	if !asJSON {
		return nil
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("print list: %w", err)
	}
	return nil
}

func listedOf(s *scenario.Scenario) (listed, error) {
	one := listed{Name: s.Name, Title: s.Title, About: strings.TrimSpace(s.About)}
	for _, agents := range (Options{Scenario: s}).sides() {
		one.Sides = append(one.Sides, sideOf(agents))
	}
	for _, name := range s.VariantNames() {
		c, err := s.Case(name)
		if err != nil {
			return one, err
		}
		one.Variants = append(one.Variants, listedVariant{
			Name: name, Title: cmp.Or(c.Title, s.Title),
			HoldMS: ms(c.Phases.Hold), QuickHoldMS: ms(c.Quick(true).Phases.Hold), LastsMS: ms(lasts(c)),
		})
	}
	return one, nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// lasts is about how long one run of a case takes.
func lasts(c *scenario.Case) time.Duration {
	return c.Phases.Baseline + c.Phases.Hold + c.Phases.Settle + startTime(c)
}
