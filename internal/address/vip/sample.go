package vip

import _ "embed"

// Sample is a vip.yaml with every key and a comment on each.
//
//go:embed sample.yaml
var Sample string
