package slices

// Keys of log lines.
const (
	keyError   = "error"
	keyProblem = "problem"
	keyObject  = "object"
	keyWhy     = "why"
	keyNode    = "node"
)

// Names of the conditions of /readyz and /healthz.
const (
	condAPI       = "api"           // the API answers and lets the agent read
	condApiserver = "own-apiserver" // its state is known, good or bad
	condPublished = "published"     // the own endpoint is there and says what it should
	condLease     = "lease"         // the own Lease is renewed
	condLoop      = "loop"          // liveness
)
