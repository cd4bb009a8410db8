package balance

import _ "embed"

// Sample is a balance.yaml with every key and a comment on each.
//
//go:embed sample.yaml
var Sample string
