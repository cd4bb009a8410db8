package vip

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/announce/bgp"
	"github.com/holdfast-ha/holdfast/internal/address/bfd"
)

// PeerStatus is one router of BGP.
type PeerStatus struct {
	Address string `json:"address"`
	AS      uint32 `json:"as"`
	// State is that of RFC 4271 section 8.2.2, since Since.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	// Cause is why there is no session, in one line, and Kind the same as a label.
	Cause string `json:"cause,omitempty"`
	Kind  string `json:"cause_kind,omitempty"`
	// Announced is how many addresses the router was told of.
	Announced int   `json:"announced"`
	HoldMS    int64 `json:"hold_ms,omitempty"`
	// Ups and Tries count sessions and dials, Losses lost sessions by cause.
	Ups      uint64            `json:"ups"`
	Tries    uint64            `json:"tries"`
	Losses   map[string]uint64 `json:"losses,omitempty"`
	Sent     uint64            `json:"messages_sent"`
	Received uint64            `json:"messages_received"`
}

// PathStatus is one session of BFD.
type PathStatus struct {
	Peer      string `json:"peer"`
	Interface string `json:"interface,omitempty"`
	// State and Remote are both ends, RFC 5880 section 6.2; Cause is the diagnostic
	// of the end that saw the session fall, and Trouble why nothing can be sent.
	State   string    `json:"state"`
	Remote  string    `json:"remote"`
	Since   time.Time `json:"since"`
	Cause   string    `json:"cause,omitempty"`
	Trouble string    `json:"trouble,omitempty"`
	// DetectionMS is after what silence the session falls, as agreed.
	DetectionMS int64 `json:"detection_ms,omitempty"`
	// Ups counts how often it came up, Failures how often it failed.
	Ups      uint64            `json:"ups"`
	Failures uint64            `json:"failures"`
	Sent     uint64            `json:"packets_sent"`
	Received uint64            `json:"packets_received"`
	Dropped  map[string]uint64 `json:"packets_dropped,omitempty"`
}

// LatenessStatus says how often and how much this machine was late with BFD.
type LatenessStatus struct {
	Count uint64 `json:"count"`
	MaxMS int64  `json:"max_ms"`
}

// TableStatus is the table of routes.
type TableStatus struct {
	Number  int    `json:"number"`
	Routes  int    `json:"routes"`
	Mended  uint64 `json:"mended"`
	Trouble string `json:"trouble,omitempty"`
}

// status adds what is known of routers.
func (r *routing) status(s *Status) {
	if r.speaker != nil {
		for _, p := range r.speaker.Status() {
			s.BGP = append(s.BGP, peerStatus(p))
		}
	}
	if r.paths != nil {
		all, own := r.paths.status()
		for _, p := range all {
			s.BFD = append(s.BFD, pathStatus(p))
		}
		s.Lateness = &LatenessStatus{Count: own.Late, MaxMS: own.Latest.Milliseconds()}
	}
	if t := r.table; t != nil {
		s.Route = &TableStatus{Number: t.Number(), Routes: t.Routes(), Mended: t.Mended(), Trouble: t.Trouble()}
	}
}

func peerStatus(p bgp.PeerStatus) PeerStatus {
	s := PeerStatus{
		Address: p.Address.String(), AS: p.AS, State: p.State.String(), Since: p.Since, Cause: p.Cause.String(), Kind: string(p.Cause.Kind),
		Announced: p.Announced, HoldMS: p.Hold.Milliseconds(), Ups: p.Ups, Tries: p.Tries, Losses: map[string]uint64{}, Sent: p.Sent, Received: p.Received,
	}
	for k, n := range p.Losses {
		s.Losses[string(k)] = n
	}
	return s
}

func pathStatus(p bfd.Status) PathStatus {
	s := PathStatus{
		Peer: p.Peer.String(), Interface: p.Interface, State: p.State.String(), Remote: p.Remote.String(), Since: p.Since,
		Trouble: p.Trouble, DetectionMS: p.Detection.Milliseconds(), Ups: p.Ups, Failures: p.Failures, Sent: p.Sent, Received: p.Received,
		Dropped: map[string]uint64{},
	}
	switch {
	case p.State == bfd.Up:
	case p.Diag == bfd.DiagNeighborDown && p.RemoteDiag != bfd.DiagNone:
		s.Cause = "the neighbor: " + p.RemoteDiag.String()
	case p.Diag != bfd.DiagNone:
		s.Cause = p.Diag.String()
	}
	for k, n := range p.Dropped {
		s.Dropped[string(k)] = n
	}
	return s
}

// printRouting writes the tables about routers, where there are any.
func (s Status) printRouting(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	since := func(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }
	if len(s.BGP) > 0 {
		fmt.Fprintln(table, "\nBGP PEER\tAS\tSTATE\tSINCE\tANNOUNCED\tLOST\tCAUSE")
	}
	for _, p := range s.BGP {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%d\t%d\t%s\n", p.Address, p.AS, p.State, since(p.Since), p.Announced, total(p.Losses), orDash(p.Cause))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	if len(s.BFD) > 0 {
		fmt.Fprintln(table, "\nBFD PEER\tINTERFACE\tSTATE\tSINCE\tDETECTION\tFAILED\tCAUSE")
	}
	for _, p := range s.BFD {
		detection := "-"
		if p.DetectionMS > 0 {
			detection = (time.Duration(p.DetectionMS) * time.Millisecond).String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", p.Peer, orDash(p.Interface), p.State, since(p.Since), detection, p.Failures, orDash(firstOf(p.Trouble, p.Cause)))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	if s.Route != nil {
		if _, err := fmt.Fprintf(w, "\nRoutes: %d in table %d, %d put back\n", s.Route.Routes, s.Route.Number, s.Route.Mended); err != nil {
			return fmt.Errorf("print status: %w", err)
		}
	}
	return nil
}

func firstOf(all ...string) string {
	if i := slices.IndexFunc(all, func(s string) bool { return s != "" }); i >= 0 {
		return all[i]
	}
	return ""
}

func total(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}

// routingFaults are why routers are not told where addresses are.
func (s Status) routingFaults() []error {
	var all []error
	if len(s.BGP) > 0 && !slices.ContainsFunc(s.BGP, func(p PeerStatus) bool { return p.State == bgp.Established.String() }) {
		all = append(all, fmt.Errorf("bgp: no session is up; %s: %s", s.BGP[0].Address, firstOf(s.BGP[0].Cause, s.BGP[0].State)))
	}
	if s.Route != nil && s.Route.Trouble != "" {
		all = append(all, fmt.Errorf("route: %s", s.Route.Trouble))
	}
	return all
}
