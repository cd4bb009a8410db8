package scenario

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Remedy says in a few words how the two runs of a case differ, where that is no
// agent but a setting: "one store per zone" with, "one store in shards" without.
// What the words stand for is in the section that the scenario has for it.
type Remedy struct {
	With    string `yaml:"with,omitempty"`
	Without string `yaml:"without,omitempty"`
}

// mostWords is what the heading of a run has room for.
const mostWords = 32

func (r Remedy) check() error {
	if (r.With == "") != (r.Without == "") {
		return errors.New("remedy: say both sides; write remedy: {with: …, without: …}")
	}
	for _, words := range []string{r.With, r.Without} {
		if n := utf8.RuneCountInString(words); n > mostWords {
			return fmt.Errorf("remedy: %q is %d letters long; a heading has room for %d", words, n, mostWords)
		}
	}
	return nil
}

// SideWords name a run of the case for people: "with the agents" and "without the
// agents", or what stands in the place of the agents.
func (c *Case) SideWords(agents bool) string {
	switch {
	case agents && c.Remedy.With != "":
		return "with " + c.Remedy.With
	case agents:
		return "with the agents"
	case c.Remedy.Without != "":
		return "with " + c.Remedy.Without
	}
	return "without the agents"
}
