package probe

import (
	"fmt"
	"strconv"
	"strings"
)

// codeSet is a set of HTTP status codes as ranges, both ends included.
type codeSet [][2]int

// parseCodes reads "200-399", "200,401,500-503" or "any".
func parseCodes(s string) (codeSet, error) {
	if s == "any" {
		return codeSet{{100, 999}}, nil
	}
	var set codeSet
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, found := strings.Cut(strings.TrimSpace(part), "-")
		if !found {
			hi = lo
		}
		from, err1 := strconv.Atoi(lo)
		to, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || from < 100 || to > 999 || from > to {
			return nil, fmt.Errorf("expect: %q is no HTTP code; write codes and ranges such as 200-399,401, or any", part)
		}
		set = append(set, [2]int{from, to})
	}
	return set, nil
}

func (c codeSet) has(code int) bool {
	for _, r := range c {
		if r[0] <= code && code <= r[1] {
			return true
		}
	}
	return false
}
