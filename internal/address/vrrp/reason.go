package vrrp

import (
	"errors"
	"fmt"
)

// Reason says why a packet was not taken for an advert: a short constant word
// for the label of a metric.
type Reason string

const (
	ReasonTTL      Reason = "ttl"      // passed through a router
	ReasonLength   Reason = "length"   // shorter or longer than its fields say
	ReasonVersion  Reason = "version"  // neither 2 nor 3, or 2 over IPv6
	ReasonType     Reason = "type"     // not an ADVERTISEMENT
	ReasonChecksum Reason = "checksum" // changed on its way
	ReasonVRID     Reason = "vrid"     // VRID 0, which is nobody's
	ReasonCount    Reason = "count"    // without a single address
	ReasonInterval Reason = "interval" // promises an advert every 0 s
	ReasonAuth     Reason = "auth"     // authenticated in a way that we do not share
	ReasonFamily   Reason = "family"   // source and destination of two families
)

// Malformed is the error of Parse and CheckTTL.
type Malformed struct {
	Reason Reason
	Detail string
}

func (m *Malformed) Error() string { return "parse advert: " + m.Detail }

func malformed(r Reason, format string, args ...any) error {
	return &Malformed{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// ReasonOf returns the reason inside an error, or "" if it is none of ours.
func ReasonOf(err error) Reason {
	var m *Malformed
	if errors.As(err, &m) {
		return m.Reason
	}
	return ""
}
