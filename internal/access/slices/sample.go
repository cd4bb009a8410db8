package slices

import _ "embed"

// Sample is a slices.yaml with every key and a comment on each.
//
//go:embed sample.yaml
var Sample string
