package landing

import (
	"encoding/hex"
	"slices"
)

// Print is the SHA-256 of the certificate that a server showed.
type Print [32]byte

// String is the first four bytes: enough for people to see which are the same.
func (p Print) String() string { return hex.EncodeToString(p[:4]) }

// Book is who shows which certificate, by address. It is a map that its owner
// guards.
type Book map[string]Print

// Who lists the addresses that show a certificate, sorted.
func (b Book) Who(p Print) []string {
	var all []string
	for address, shown := range b {
		if shown == p {
			all = append(all, address)
		}
	}
	slices.Sort(all)
	return all
}

// Keep forgets addresses that are not endpoints any more.
func (b Book) Keep(all []Endpoint) {
	for address := range b {
		if !slices.ContainsFunc(all, func(e Endpoint) bool { return e.Address == address }) {
			delete(b, address)
		}
	}
}

// Unknown lists the endpoints whose certificate was not seen yet.
func (b Book) Unknown(all []Endpoint) []string {
	var out []string
	for i := range all {
		if _, ok := b[all[i].Address]; !ok && !slices.Contains(out, all[i].Address) {
			out = append(out, all[i].Address)
		}
	}
	return out
}

// place is what an answer tells of where a connection landed.
type place int

const (
	stayed   place = iota
	strayed        // answered by an endpoint that is known, and was not hinted
	either         // endpoints inside and outside show this certificate
	stranger       // no endpoint that was reached shows it
)

// placeOf says where an answer came from.
func placeOf(who []string, e *Expectation) place {
	inside := 0
	for _, address := range who {
		if e.Has(address) {
			inside++
		}
	}
	switch {
	case len(who) == 0:
		return stranger
	case inside == len(who):
		return stayed
	case inside == 0:
		return strayed
	}
	return either
}
