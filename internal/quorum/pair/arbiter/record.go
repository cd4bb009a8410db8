package arbiter

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// RecordVersion is the version of the record's layout.
const RecordVersion = 1

// MaxRecord is the most bytes that a record may have. One of ours has some 400.
const MaxRecord = store.MaxObject

// State says who may serve.
type State string

const (
	// Paired: both members are voters, and neither may serve without the other.
	Paired State = "paired"
	// Solo: Survivor may serve alone, and its peer may not serve at all.
	Solo State = "solo"
)

// Member is one of the two. Its name is the pair's name for it, the same for
// good; its id changes when it rejoins.
type Member struct {
	Name string `json:"name"`
	ID   wal.ID `json:"id"`
}

// Record is what the arbiter keeps. Its JSON form has some 400 bytes.
type Record struct {
	Version int    `json:"version"`
	Cluster wal.ID `json:"cluster"`
	// Members are the two, by name. In solo the one that is not Survivor may
	// have the id that it had before.
	Members [2]Member `json:"members"`
	// Generation grows by one with every change, from 1.
	Generation uint64 `json:"generation"`
	State      State  `json:"state"`
	// Survivor is the name of the member that may serve alone, in Solo only.
	Survivor string `json:"survivor,omitempty"`
	// Held says that a person asked for Solo: the peer is not taken back before
	// a person ends it.
	Held bool `json:"held,omitempty"`
	// Forced says that a person accepted the loss of what only the former
	// survivor has.
	Forced bool `json:"forced,omitempty"`
	// Nonce is random and new with every change: 32 hex digits.
	Nonce string `json:"nonce"`
	// By names who wrote it, Time when, by that machine's clock; both are for people.
	By   string    `json:"by"`
	Time time.Time `json:"time"`
	// Since is when Survivor began to serve alone, in Solo only, for people too: what
	// it acknowledged since then is nowhere else. Client fills it in where it is zero.
	Since time.Time `json:"since,omitzero"`
}

// NewNonce is a random nonce.
func NewNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails, says crypto/rand
	return hex.EncodeToString(b[:])
}

// SoloOf reports whether member name may serve alone.
func (r Record) SoloOf(name string) bool { return r.State == Solo && r.Survivor == name }

// Peer is the other member of the two.
func (r Record) Peer(name string) Member {
	if r.Members[0].Name == name {
		return r.Members[1]
	}
	return r.Members[0]
}

// Has reports whether name is one of the two.
func (r Record) Has(name string) bool {
	return r.Members[0].Name == name || r.Members[1].Name == name
}

// Validate says what is wrong with a record, in one line.
func (r Record) Validate() error {
	switch {
	case r.Version != RecordVersion:
		return fmt.Errorf("record of version %d; this program writes and reads version %d", r.Version, RecordVersion)
	case r.Cluster == 0:
		return errors.New("record without a cluster id")
	case r.Members[0].Name == "" || r.Members[1].Name == "" || r.Members[0].Name == r.Members[1].Name:
		return errors.New("record without the names of two members")
	case r.Generation == 0:
		return errors.New("record without a generation")
	case r.State != Paired && r.State != Solo:
		return fmt.Errorf("record of state %q; known are %q and %q", r.State, Paired, Solo)
	case (r.State == Solo) != (r.Survivor != ""):
		return fmt.Errorf("record of state %q with survivor %q", r.State, r.Survivor)
	case r.State == Solo && !r.Has(r.Survivor):
		return fmt.Errorf("survivor %q is not one of the two members", r.Survivor)
	case r.State == Paired && (r.Held || r.Forced):
		return errors.New("a paired record is neither held nor forced")
	case len(r.Nonce) != 32:
		return errors.New("record without a nonce of 32 hex digits")
	}
	if _, err := hex.DecodeString(r.Nonce); err != nil {
		return errors.New("record without a nonce of 32 hex digits")
	}
	return nil
}

// Encode is a record's JSON form, one line.
func (r Record) Encode() ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	if len(b) >= MaxRecord {
		return nil, fmt.Errorf("record of %d bytes; give the members shorter names", len(b))
	}
	return append(b, '\n'), nil
}

// Decode reads what Encode wrote. Anything else is an error: an unknown field
// may come from a later version that means something by it.
func Decode(b []byte) (Record, error) {
	if len(b) > MaxRecord {
		return Record{}, fmt.Errorf("%d bytes are no record", len(b))
	}
	var r Record
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("decode record: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("decode record: something stands behind it")
	}
	return r, r.Validate()
}
