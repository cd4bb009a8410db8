package conf

import (
	"fmt"
	"strconv"
	"time"
)

// HAProxyTime reads a time of haproxy.cfg: a number of milliseconds, or with the
// unit us, ms, s, m, h or d.
func HAProxyTime(text string) (time.Duration, error) {
	if ms, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(ms) * time.Millisecond, nil
	}
	if n, ok := cutDays(text); ok {
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("time %q: want a number with us, ms, s, m, h or d", text)
	}
	return d, nil
}

func cutDays(text string) (int64, bool) {
	if len(text) < 2 || text[len(text)-1] != 'd' {
		return 0, false
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 16)
	return n, err == nil
}

// Seconds reads a whole or broken number of seconds, as keepalived and FRR have it.
func Seconds(text string) (time.Duration, error) {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s >= 0 && s <= 1e6) { // NaN is neither
		return 0, fmt.Errorf("time %q: want a number of seconds", text)
	}
	return time.Duration(s * float64(time.Second)), nil
}
