package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since boot, suspension included: what Machine's times mean in
// an Agent. Nobody can set it.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// Every kernel since 2.6.39 has it.
		panic("read CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
