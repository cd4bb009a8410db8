package leader

// Keys of the log. Drills and people search for them, so they are constants.
const (
	keyPeer    = "peer"
	keyCluster = "cluster"
	keyMember  = "member"
	keyFrom    = "from"
	keyTo      = "to"
	keyLoss    = "loss"
	keyError   = "error"
	keyRemedy  = "remedy"
	keyWrong   = "wrong"
	keyReason  = "reason"
	keyTook    = "took_ms"
	keyTerm    = "term"
	keyVia     = "via"
	keyCode    = "code"
	keyVersion = "version"
	keyPenalty = "penalty"
)
