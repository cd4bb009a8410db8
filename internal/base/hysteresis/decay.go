package hysteresis

import (
	"math"
	"time"
)

// Decayed is a penalty after elapsed, halving every halfLife. A negative
// elapsed counts as none; without a half-life a penalty never fades.
func Decayed(penalty float64, elapsed, halfLife time.Duration) float64 {
	if elapsed <= 0 || halfLife <= 0 {
		return penalty
	}
	return penalty * math.Exp2(-float64(elapsed)/float64(halfLife))
}

// Until is how long a penalty takes to fall below limit; 0 when it is below
// already. It rounds up, so that waiting that long is always enough.
func Until(penalty, limit float64, halfLife time.Duration) time.Duration {
	if penalty < limit {
		return 0
	}
	if limit <= 0 || halfLife <= 0 {
		return math.MaxInt64
	}
	wait := math.Log2(penalty/limit) * float64(halfLife)
	if wait >= float64(math.MaxInt64/2) {
		return math.MaxInt64
	}
	return time.Duration(math.Floor(wait)) + time.Microsecond
}
