package lease

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// ErrForeign is wrapped when a record is none of this package's: of another
// program, or of a later version of this one.
var ErrForeign = errors.New("not a record of holdfast")

// wire is a Record in JSON.
type wire struct {
	Version int        `json:"version"`
	Holder  string     `json:"holder"`
	Given   bool       `json:"given,omitempty"`
	Fresh   bool       `json:"fresh,omitempty"`
	Turn    uint64     `json:"turn"`
	Mark    string     `json:"mark"`
	Lease   string     `json:"lease"`
	Peers   []wirePeer `json:"peers"`
	Key     []byte     `json:"key,omitempty"`
}

type wirePeer struct {
	Name    string         `json:"name"`
	Address netip.AddrPort `json:"address"`
}

const (
	wireVersion = 1
	// maxRecord is that of five hundred peers; Kubernetes takes annotations of
	// 256 KiB together.
	maxRecord = 64 << 10
	maxKey    = 1 << 10
)

// Encode returns the record as JSON.
func (r *Record) Encode() ([]byte, error) {
	w := wire{
		Version: wireVersion, Holder: r.Holder, Given: r.Given, Fresh: r.Fresh, Turn: r.Turn,
		Mark: r.Mark.String(), Lease: r.Duration.String(), Key: r.Key, Peers: []wirePeer{},
	}
	for _, p := range r.Peers {
		w.Peers = append(w.Peers, wirePeer(p))
	}
	data, err := json.Marshal(w)
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("%d bytes, more than %d; name fewer peers", len(data), maxRecord)
	}
	if err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	return data, nil
}

// Decode reads what Encode wrote. An error wraps ErrForeign.
func Decode(data []byte) (Record, error) {
	foreign := func(what string) (Record, error) { return Record{}, fmt.Errorf("%w: %s", ErrForeign, what) }
	if len(data) > maxRecord {
		return foreign("too large")
	}
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return foreign("not JSON of its form")
	}
	if w.Version != wireVersion {
		return foreign(fmt.Sprintf("version %d, and this program knows %d", w.Version, wireVersion))
	}
	mark, ok := parseMark(w.Mark)
	if !ok {
		return foreign(fmt.Sprintf("mark %.50q", w.Mark))
	}
	duration, err := time.ParseDuration(w.Lease)
	if err != nil || duration < MinDuration || duration > MaxDuration {
		return foreign(fmt.Sprintf("lease %.50q", w.Lease))
	}
	if len(w.Holder) > 63 || len(w.Key) > maxKey || w.Holder == "" && w.Given || w.Holder != "" && w.Fresh {
		return foreign("holder or key out of range")
	}
	r := Record{Holder: w.Holder, Given: w.Given, Fresh: w.Fresh, Turn: w.Turn, Mark: mark, Duration: duration, Key: w.Key}
	for _, p := range w.Peers {
		if p.Name == "" || len(p.Name) > 63 {
			return foreign("a peer without a name")
		}
		r.Peers = append(r.Peers, Peer(p))
	}
	return r, nil
}

// String is the incarnation in hexadecimal, a dot, and the serial.
func (m Mark) String() string { return fmt.Sprintf("%016x.%d", m.Incarnation, m.Serial) }

func parseMark(s string) (m Mark, ok bool) {
	incarnation, serial, found := strings.Cut(s, ".")
	if !found || len(incarnation) != 16 {
		return m, false
	}
	var err1, err2 error
	m.Incarnation, err1 = strconv.ParseUint(incarnation, 16, 64)
	m.Serial, err2 = strconv.ParseUint(serial, 10, 64)
	return m, err1 == nil && err2 == nil
}
