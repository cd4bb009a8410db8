//go:build race

package bfd

const raceEnabled = true
