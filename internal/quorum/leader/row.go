package leader

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// rowVersion is the version of the published row. A reader ignores rows of a
// version it does not know: to it their member is unknown, never down.
const rowVersion = 1

// wireRow is a Row as it stands in etcd and on the mesh. Ids are hexadecimal
// as etcdctl prints them; times are milliseconds, all of them ages, so that
// no reader ever compares its clock with a writer's.
type wireRow struct {
	Version    int                 `json:"version"`
	Member     string              `json:"member"`
	Cluster    string              `json:"cluster"`
	Name       string              `json:"name"`
	Zone       string              `json:"zone,omitempty"`
	Boot       string              `json:"boot"`
	Seq        uint64              `json:"seq"`
	Reachable  bool                `json:"reachable"`
	Leader     string              `json:"leader"`
	Leaderless int64               `json:"leaderless_ms,omitempty"`
	Term       uint64              `json:"term"`
	Applied    uint64              `json:"applied"`
	Index      uint64              `json:"index"`
	Learner    bool                `json:"learner,omitempty"`
	Alarms     []string            `json:"alarms,omitempty"`
	Etcd       string              `json:"etcd,omitempty"`
	Fsync      float64             `json:"fsync_ms,omitempty"`
	Links      map[string]wireLink `json:"links"`
	Penalty    wirePenalty         `json:"penalty"`
	// AgeMS is how old the row was when it was handed on; 0 in etcd.
	AgeMS int64 `json:"age_ms,omitempty"`
}

// wirePenalty is the record of the last move, as it stands under
// <prefix>/decision and is repeated in every row.
type wirePenalty struct {
	Seq   uint64   `json:"seq"`
	Value float64  `json:"penalty"`
	From  MemberID `json:"from"`
	To    MemberID `json:"to"`
	Term  uint64   `json:"term"`
}

func (w wirePenalty) penalty() Penalty {
	if w.Seq > maxSeq {
		// Nothing could ever come after it. Whatever record it stood for, any
		// sound one replaces it.
		return Penalty{Value: maxPenalty}
	}
	if !(w.Value >= 0 && w.Value <= maxPenalty) {
		w.Value = maxPenalty // nonsense can only lengthen the wait, and not for ever
	}
	return Penalty(w)
}

// maxPenalty is beyond what moves can add up to: with one move per half-life
// the penalty stays below 2.
const maxPenalty = 16

// Bounds of what others write. They keep one bad row from filling the memory
// of every reader, or the answer (meshLimit) of every agent that relays it.
const (
	// maxSeq is what JSON numbers hold exactly (RFC 8259, section 6), and more
	// rows than an agent writes in a million years.
	maxSeq   = 1 << 53
	rowLimit = 64 << 10
	// maxLinks is above the members, learners included, of any cluster: etcd
	// advises against more than seven.
	maxLinks  = 64
	maxAlarms = 8
	maxText   = 253 // a host name (RFC 1035, section 2.3.4)
)

// tidy bounds a text that others wrote and that is printed to terminals.
func tidy(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

func tidyAll(texts []string) []string {
	var all []string
	for _, t := range texts[:min(len(texts), maxAlarms)] {
		all = append(all, tidy(t))
	}
	return all
}

type wireLink struct {
	State string  `json:"state"`
	Since int64   `json:"since_ms"`
	RTT   float64 `json:"rtt_ms,omitempty"`
	Loss  float64 `json:"loss,omitempty"`
}

func ms(d time.Duration) int64        { return d.Milliseconds() }
func msf(d time.Duration) float64     { return float64(d) / float64(time.Millisecond) }
func fromMS(n int64) time.Duration    { return time.Duration(n) * time.Millisecond }
func fromMSF(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }

// wire turns a row into its published form.
func wire(r Row) wireRow {
	w := wireRow{
		Version: rowVersion, Member: r.Member.String(), Cluster: strconv.FormatUint(r.Cluster, 16),
		Name: r.Name, Zone: r.Zone, Boot: r.Boot, Seq: r.Seq, Reachable: r.Reachable,
		Leader: r.Leader.String(), Leaderless: ms(r.LeaderlessFor), Term: r.Term, Applied: r.Applied, Index: r.Index,
		Learner: r.Learner, Alarms: r.Alarms, Etcd: r.Version, Fsync: msf(r.Fsync),
		Links: make(map[string]wireLink, len(r.Links)), Penalty: wirePenalty(r.Penalty), AgeMS: ms(r.Age),
	}
	for id, l := range r.Links {
		w.Links[id.String()] = wireLink{State: l.State.String(), Since: ms(l.Since), RTT: msf(l.RTT), Loss: l.Loss}
	}
	return w
}

// maxAge bounds ages read from others: beyond a day nothing is fresh, and an
// absurd number must not overflow into the future.
const maxAge = 24 * time.Hour

func age(n int64) time.Duration {
	if n < 0 || n > int64(maxAge/time.Millisecond) {
		return maxAge
	}
	return fromMS(n)
}

// row turns a published row back. Unknown fields are allowed: a newer agent
// of the same row version may have added some.
func (w wireRow) row() (Row, error) {
	if w.Version != rowVersion {
		return Row{}, fmt.Errorf("row version %d: this agent reads version %d", w.Version, rowVersion)
	}
	member, err := ParseMemberID(w.Member)
	if err != nil {
		return Row{}, err
	}
	if member == 0 || w.Boot == "" {
		return Row{}, fmt.Errorf("row of member %q: member and boot must be set", w.Member)
	}
	if w.Seq > maxSeq || len(w.Links) > maxLinks {
		return Row{}, fmt.Errorf("row of member %q: seq %d and %d links are beyond what an agent writes", w.Member, w.Seq, len(w.Links))
	}
	cluster, err := strconv.ParseUint(w.Cluster, 16, 64)
	if err != nil {
		return Row{}, fmt.Errorf("cluster id %q: not hexadecimal", w.Cluster)
	}
	lead, err := ParseMemberID(w.Leader)
	if err != nil {
		return Row{}, err
	}
	r := Row{
		Member: member, Cluster: cluster, Name: tidy(w.Name), Zone: tidy(w.Zone), Boot: tidy(w.Boot), Seq: w.Seq, Age: age(w.AgeMS),
		Reachable: w.Reachable, Leader: lead, LeaderlessFor: age(w.Leaderless), Term: w.Term, Applied: w.Applied, Index: w.Index,
		Learner: w.Learner, Alarms: tidyAll(w.Alarms), Version: tidy(w.Etcd), Links: make(map[MemberID]Link, len(w.Links)),
		Penalty: w.Penalty.penalty(),
	}
	if w.Fsync > 0 && w.Fsync < msf(maxAge) {
		r.Fsync = fromMSF(w.Fsync)
	}
	for text, l := range w.Links {
		id, err := ParseMemberID(text)
		if err != nil {
			return Row{}, err
		}
		r.Links[id] = l.link()
	}
	return r, nil
}

func (w wireLink) link() Link {
	l := Link{State: parseLinkState(w.State), Since: age(w.Since), Loss: min(max(w.Loss, 0), 1)}
	if w.RTT > 0 && w.RTT < msf(maxAge) {
		l.RTT = fromMSF(w.RTT)
	}
	return l
}

func parseLinkState(s string) LinkState {
	for _, known := range []LinkState{Up, Down} {
		if s == known.String() {
			return known
		}
	}
	return Unknown
}

func encodeRow(r Row) ([]byte, error) {
	b, err := json.Marshal(wire(r))
	if err != nil {
		return nil, fmt.Errorf("encode row: %w", err)
	}
	return b, nil
}

func decodeRow(b []byte) (Row, error) {
	if len(b) > rowLimit {
		return Row{}, fmt.Errorf("decode row: %d bytes; an agent writes less than %d", len(b), rowLimit)
	}
	var w wireRow
	if err := json.Unmarshal(b, &w); err != nil {
		return Row{}, fmt.Errorf("decode row: %w", err)
	}
	return w.row()
}
