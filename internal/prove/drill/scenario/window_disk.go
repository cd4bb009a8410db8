package scenario

import "fmt"

// diskLeft is from a slow disk to leadership leaving it: readings have to say so
// three times in a row, and the record of the move is the last thing that the slow
// disk delays.
func diskLeft(t Timers) Window {
	return sum(t.DiskSlow, append([]term{
		{3 * t.DiskRead, fmt.Sprintf("3 readings say that the disk is slow, one every %s:", short(t.DiskRead))},
		{2 * t.DiskSync, "record of the move, two syncs"},
		{t.Quiet, "quiet moment"},
		{t.DiskSync, "what is being synced"},
		{t.Transfer, "transfer"},
		{2 * t.RTT, "two round trips"},
	}, t.seen()...))
}
