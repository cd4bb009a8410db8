package wal

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of a log, by the numbers that etcd's record.proto, raft.proto
// and etcdserver.proto give their fields; 3.5, 3.6 and 3.7 write the same bytes.
// They are read here without the generated types, which would allocate for each
// of a million entries and take a value that they do not know for one that they
// do.

// Kinds of record.
const (
	kindMetadata = iota + 1
	kindEntry
	kindState
	kindCRC
	kindSnapshot
)

// Types of entry.
const (
	entryNormal = iota
	entryConfChange
	entryConfChangeV2
)

// Types of membership change.
const (
	changeAdd = iota
	changeRemove
	changeUpdate
	changeAddLearner
)

type record struct {
	kind uint64
	crc  uint32
	data []byte
}

// HardState is what a member has promised in the raft paper's terms, figure 2.
type HardState struct {
	Term   uint64 `json:"term"`
	Vote   uint64 `json:"vote"`
	Commit uint64 `json:"commit"`
}

type entry struct {
	typ, term, index uint64
	data             []byte
}

type confChange struct {
	typ, node uint64
	context   []byte
}

// confState is a configuration of raft. Outgoing and nextLearners are not empty
// only in a joint one.
type confState struct {
	voters, learners, outgoing, nextLearners []uint64
	autoLeave                                bool
}

type snapshotMark struct {
	index, term uint64
	conf        *confState // nil at index 0 and before etcd 3.5
}

var (
	errUnknownField = errors.New("a field that no known version writes")
	errMalformed    = errors.New("not a message")
)

// fields calls f for every field of a message. Varints come as v, bytes as b.
func fields(msg []byte, f func(num protowire.Number, v uint64, b []byte) error) error {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return errMalformed
		}
		msg = msg[n:]
		var v uint64
		var b []byte
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(msg)
		case protowire.BytesType:
			b, n = protowire.ConsumeBytes(msg)
			if b == nil {
				b = []byte{}
			}
		default:
			return errUnknownField
		}
		if n < 0 {
			return errMalformed
		}
		msg = msg[n:]
		if err := f(num, v, b); err != nil {
			return err
		}
	}
	return nil
}

// numbers are the varint fields of a message by number, from 1. Each must be
// there: a record's sum does not cover its kind, and a message of another kind
// rarely has just these.
func numbers(msg []byte, into ...*uint64) error {
	seen := 0
	err := fields(msg, func(num protowire.Number, v uint64, b []byte) error {
		if b != nil || int(num) > len(into) {
			return errUnknownField
		}
		*into[num-1] = v
		seen |= 1 << num
		return nil
	})
	if err == nil && seen != 1<<(len(into)+1)-2 {
		return errMalformed
	}
	return err
}

func parseRecord(b []byte) (record, error) {
	var r record
	err := fields(b, func(num protowire.Number, v uint64, data []byte) error {
		switch {
		case num == 1 && data == nil:
			r.kind = v
		case num == 2 && data == nil && v <= 0xffffffff:
			r.crc = uint32(v)
		case num == 3 && data != nil:
			r.data = data
		default:
			return errUnknownField
		}
		return nil
	})
	return r, err
}

func parseEntry(b []byte) (entry, error) {
	var e entry
	err := fields(b, func(num protowire.Number, v uint64, data []byte) error {
		switch {
		case num == 1 && data == nil:
			e.typ = v
		case num == 2 && data == nil:
			e.term = v
		case num == 3 && data == nil:
			e.index = v
		case num == 4 && data != nil:
			e.data = data
		default:
			return errUnknownField
		}
		return nil
	})
	if err == nil && (e.typ > entryConfChangeV2 || e.term == 0 || e.index == 0) {
		err = fmt.Errorf("an entry of type %d, term %d, index %d", e.typ, e.term, e.index)
	}
	return e, err
}

func parseHardState(b []byte) (HardState, error) {
	var h HardState
	err := numbers(b, &h.Term, &h.Vote, &h.Commit)
	if err == nil && h.Term == 0 {
		err = errors.New("a hard state of no term")
	}
	return h, err
}

func parseMetadata(b []byte) (member, cluster uint64, err error) {
	err = numbers(b, &member, &cluster)
	return member, cluster, err
}

func parseSnapshot(b []byte) (snapshotMark, error) {
	var s snapshotMark
	err := fields(b, func(num protowire.Number, v uint64, msg []byte) error {
		switch {
		case num == 1 && msg == nil:
			s.index = v
		case num == 2 && msg == nil:
			s.term = v
		case num == 3 && msg != nil:
			conf, err := parseConfState(msg)
			s.conf = &conf
			return err
		default:
			return errUnknownField
		}
		return nil
	})
	return s, err
}

func parseConfState(b []byte) (confState, error) {
	var c confState
	lists := []*[]uint64{&c.voters, &c.learners, &c.outgoing, &c.nextLearners}
	err := fields(b, func(num protowire.Number, v uint64, packed []byte) error {
		switch {
		case num >= 1 && num <= 4 && packed == nil:
			*lists[num-1] = append(*lists[num-1], v)
		case num >= 1 && num <= 4:
			for len(packed) > 0 {
				id, n := protowire.ConsumeVarint(packed)
				if n < 0 {
					return errMalformed
				}
				*lists[num-1], packed = append(*lists[num-1], id), packed[n:]
			}
		case num == 5 && packed == nil:
			c.autoLeave = v != 0
		default:
			return errUnknownField
		}
		return nil
	})
	return c, err
}

func parseConfChange(b []byte) (confChange, error) {
	var c confChange
	err := fields(b, func(num protowire.Number, v uint64, data []byte) error {
		switch {
		case num == 1 && data == nil: // the request's id, of no use here
		case num == 2 && data == nil:
			c.typ = v
		case num == 3 && data == nil:
			c.node = v
		case num == 4 && data != nil:
			c.context = data
		default:
			return errUnknownField
		}
		return nil
	})
	if err == nil && (c.typ > changeAddLearner || c.node == 0) {
		err = fmt.Errorf("a membership change of type %d for member %x", c.typ, c.node)
	}
	return c, err
}

// promotes says whether an addition makes a voter of a learner. etcd writes it
// into the context, as JSON of membership.ConfigChangeContext.
func (c confChange) promotes() bool {
	var context struct {
		IsPromote bool `json:"isPromote"`
	}
	return json.Unmarshal(c.context, &context) == nil && context.IsPromote
}

func appendNumbers(b []byte, values ...uint64) []byte {
	for i, v := range values {
		b = protowire.AppendTag(b, protowire.Number(i+1), protowire.VarintType)
		b = protowire.AppendVarint(b, v)
	}
	return b
}

func (h HardState) marshal() []byte { return appendNumbers(nil, h.Term, h.Vote, h.Commit) }

// marshalRemoval is the entry that takes node out of the configuration. Its
// request id is 0, since nobody waits for it.
func marshalRemoval(node, term, index uint64) []byte {
	change := appendNumbers(nil, 0, changeRemove, node)
	b := appendNumbers(nil, entryConfChange, term, index)
	b = protowire.AppendTag(b, 4, protowire.BytesType)
	return protowire.AppendBytes(b, change)
}
