package collect

import (
	"bufio"
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bucket is one of a histogram of Prometheus: how many observations were at most le
// seconds.
type bucket struct{ le, count float64 }

// leastObserved is how many observations a quantile needs to mean something: below
// it one slow write of the start decides.
const leastObserved = 100

// quantile reads a histogram in Prometheus' text format and interpolates within its
// bucket as histogram_quantile does; 0 where the histogram is not there, is broken,
// or has too few observations. One beyond the last bound is the last bound.
func quantile(r io.Reader, name string, q float64) time.Duration {
	all := buckets(r, name)
	if len(all) < 2 || !math.IsInf(all[len(all)-1].le, 1) || all[len(all)-1].count < leastObserved {
		return 0
	}
	rank := q * all[len(all)-1].count
	var from, below float64
	for _, b := range all {
		switch {
		case b.count < below:
			return 0 // not cumulative: no histogram
		case b.count < rank:
			from, below = b.le, b.count
			continue
		case math.IsInf(b.le, 1):
			return seconds(from)
		}
		return seconds(from + (b.le-from)*(rank-below)/(b.count-below))
	}
	return 0
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// maxBound is beyond what any bucket of seconds is for.
const maxBound = 1e6

// buckets lists those of a histogram without labels but le, by their bound.
func buckets(r io.Reader, name string) []bucket {
	var all []bucket
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name+`_bucket{le="`)
		bound, value, found := strings.Cut(rest, `"}`)
		if !ok || !found {
			continue
		}
		le, errLE := strconv.ParseFloat(bound, 64)
		fields := strings.Fields(value)
		if errLE != nil || len(fields) == 0 || math.IsNaN(le) || le < 0 || le > maxBound && !math.IsInf(le, 1) {
			continue
		}
		if count, err := strconv.ParseFloat(fields[0], 64); err == nil && count >= 0 && !math.IsInf(count, 1) {
			all = append(all, bucket{le, count})
		}
	}
	slices.SortFunc(all, func(a, b bucket) int { return cmp.Compare(a.le, b.le) })
	return all
}
