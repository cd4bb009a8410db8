package vip

// Keys of log lines.
const (
	keyGroup     = "group"
	keyState     = "state"
	keyBefore    = "before"
	keyCause     = "cause"
	keyInterface = "interface"
	keyAddress   = "address"
	keyFrom      = "from"
	keyCheck     = "check"
	keyError     = "error"
	keyReason    = "reason"
	keyHook      = "hook"
	keyLate      = "late"
)
