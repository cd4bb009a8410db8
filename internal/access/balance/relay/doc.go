// Package relay carries TCP connections between clients and the targets that a
// Picker chooses.
package relay
