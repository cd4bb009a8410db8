package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// findLink finds "a-b" among links.
func findLink(links []Link, s string) (Link, error) {
	a, b, _ := strings.Cut(s, "-")
	var known []string
	for _, l := range links {
		if l.A == a && l.B == b || l.A == b && l.B == a {
			return l, nil
		}
		known = append(known, l.A+"-"+l.B)
	}
	return Link{}, fmt.Errorf("link %q is unknown: use %s", s, strings.Join(known, ", "))
}

func parseDelay(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("delay %q is not understood: give a unit, as in 40ms", s)
	}
	return d, nil
}

var rateUnits = []struct {
	suffix string
	factor float64
}{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}}

// maxRate is beyond any link and far from overflowing arithmetic in bits.
const maxRate = 1e12

// parseRate reads "100Mbit", with an optional "/s"; "0" is no limit.
func parseRate(s string) (uint64, error) {
	text := strings.TrimSuffix(strings.ToLower(s), "/s")
	for _, u := range rateUnits {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v >= 0 && v*u.factor <= maxRate) {
			break
		}
		return uint64(v * u.factor), nil
	}
	if text == "0" {
		return 0, nil
	}
	return 0, fmt.Errorf("rate %q is not understood: give a unit, as in 100Mbit, or 0 for no limit", s)
}

// parseLoss reads "20%" or "0.2".
func parseLoss(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return 0, fmt.Errorf("loss %q is not understood: give a share, as in 20%%", s)
	}
	return v, nil
}
