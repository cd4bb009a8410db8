package scenario

import (
	"fmt"
	"strings"
	"time"
)

// Slow makes the way between two sites worse than it is, in both directions,
// without cutting it.
type Slow struct {
	From string `yaml:"from"`
	To   string `yaml:"to"`
	// Delay is added to the travel of each packet one way, so that a round trip
	// takes twice as much longer; Jitter is the most that chance adds to it.
	Delay  time.Duration `yaml:"delay,omitempty"`
	Jitter time.Duration `yaml:"jitter,omitempty"`
	// Loss is the share of packets lost each way, from 0 to below 1.
	Loss float64 `yaml:"loss,omitempty"`
	// Mbit is the rate each way in Mbit/s, 0 leaves it.
	Mbit uint64 `yaml:"mbit,omitempty"`
}

// Limits of what is slow and not cut.
const (
	maxDelay = 10 * time.Second
	maxMbit  = 100_000
)

// String is what it does, for people.
func (s Slow) String() string {
	var parts []string
	if s.Delay > 0 {
		parts = append(parts, fmt.Sprintf("%s later", s.Delay))
	}
	if s.Jitter > 0 {
		parts = append(parts, fmt.Sprintf("up to %s of jitter", s.Jitter))
	}
	if s.Loss > 0 {
		parts = append(parts, fmt.Sprintf("%.3g%% lost", 100*s.Loss))
	}
	if s.Mbit > 0 {
		parts = append(parts, fmt.Sprintf("at most %d Mbit/s", s.Mbit))
	}
	return strings.Join(parts, ", ") + " each way"
}

func (c *Case) checkSlow(s Slow) error {
	if err := c.checkPlace("from", s.From); err != nil {
		return err
	}
	if err := c.checkPlace("to", s.To); err != nil {
		return err
	}
	switch {
	case s.From == s.To:
		return fmt.Errorf("to: %q is also from:; a link joins two sites", s.To)
	case s.Delay < 0 || s.Delay > maxDelay || s.Jitter < 0 || s.Jitter > maxDelay:
		return fmt.Errorf("delay, jitter: %s, %s; choose 0s to %s each", s.Delay, s.Jitter, maxDelay)
	case !(s.Loss >= 0 && s.Loss < 1): // not a number neither
		return fmt.Errorf("loss: %v; choose a share from 0 to below 1, or a cut", s.Loss)
	case s.Mbit > maxMbit:
		return fmt.Errorf("mbit: %d; choose 1 to %d, or leave it out", s.Mbit, maxMbit)
	case s.Delay+s.Jitter == 0 && s.Loss == 0 && s.Mbit == 0:
		return fmt.Errorf("from %s to %s: is no slower than before; give delay, jitter, loss or mbit", s.From, s.To)
	}
	return nil
}
