package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// sector is the least that a disk writes whole. What etcd had not yet synced
// when power was lost is lost by sectors: each has the bytes last written to it
// or those of an earlier time, when the log ended inside or before it.
const sector = 512

// tear is what stands behind the end of the log in the last segment.
type tear struct {
	// Offset is the end of the log, Bytes how many follow up to the last that
	// is not zero.
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	Why    string `json:"why"`
}

// errDamage is a place that no torn write explains.
var errDamage = errors.New("damage")

// torn says whether a write that power loss cut short explains why the record
// at r.off could not be read: nil if so. What it accepts, etcd accepts and
// repairs as well; what etcd would cut off although a cut write does not explain
// it, it refuses.
func torn(r *reader, cause error) error {
	switch {
	case errors.Is(cause, errFrame):
		return fmt.Errorf("%w: %w", errDamage, cause)
	case errors.Is(cause, errShort) || errors.Is(cause, errRecord) || errors.Is(cause, errSum):
	default:
		return cause // the disk's own word
	}
	if len(r.body) == 0 {
		return nil // the file ends within or right behind the length
	}
	// The length is whole, so what follows in its sector was written with it.
	if err := plausible(r.n, r.body, r.off+frameHead); err != nil {
		return fmt.Errorf("%w: %w: %w", errDamage, cause, err)
	}
	if errors.Is(cause, errShort) || hasLostSector(r.body, r.off+frameHead) {
		return nil
	}
	return fmt.Errorf("%w: %w", errDamage, cause)
}

// longestHead is the most that stands before the data of a record: its kind, its
// sum and the length of the data, each with its tag.
const longestHead = 2 + 6 + 6

// plausible checks that a body, or what is left of it, begins as a record of n
// bytes does. at is its offset in the file.
func plausible(n int, body []byte, at int64) error {
	here := int(sector-at%sector) % sector // in the sector of the length
	if here < min(longestHead, n) && allZero(body[min(here, len(body)):min(here+sector, len(body))]) {
		return nil // the sector with the beginning, or the rest of it, is lost
	}
	if len(body) < min(n, longestHead) {
		return nil // the file ends within it
	}
	rest := body
	number := func(want protowire.Number, as protowire.Type) uint64 {
		num, typ, size := protowire.ConsumeTag(rest)
		if size < 0 || num != want || typ != as {
			return math.MaxUint64
		}
		v, more := protowire.ConsumeVarint(rest[size:])
		if more < 0 {
			return math.MaxUint64
		}
		rest = rest[size+more:]
		return v
	}
	kind, crc := number(1, protowire.VarintType), number(2, protowire.VarintType)
	if kind < kindMetadata || kind > kindSnapshot || crc > math.MaxUint32 {
		return fmt.Errorf("%w: it does not begin as one", errRecord)
	}
	if len(body)-len(rest) == n {
		return nil // no data at all
	}
	if data := number(3, protowire.BytesType); data > maxRecord || n != int(data)+len(body)-len(rest) {
		return fmt.Errorf("%w: it does not fit the data", errFrame)
	}
	return nil
}

// hasLostSector says whether the part of body in one of its sectors is all zero.
func hasLostSector(body []byte, at int64) bool {
	for len(body) > 0 {
		n := min(len(body), int(sector-at%sector))
		if allZero(body[:n]) {
			return true
		}
		body, at = body[n:], at+int64(n)
	}
	return false
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// emptyAt checks the end of a log that has a length of zero at off: the rest of
// that sector is zero too, because within a sector bytes only ever came in order.
// more is what follows the length.
func emptyAt(off int64, more []byte) error {
	n := int(sector - (off+frameHead)%sector)
	if n == sector {
		return nil // the length was the last of its sector
	}
	if !allZero(more[:min(n, len(more))]) {
		return fmt.Errorf("%w: a length of zero before more of the log", errDamage)
	}
	return nil
}

// committed looks through what follows the end of a log for hard states that
// were written later, and returns the highest commit index among them. It shows
// that what cannot be read was no write cut short: before an index is
// committed, a member has synced the log up to it. rest begins at an offset that is
// a multiple of 8.
func committed(rest []byte) uint64 {
	var most uint64
	for ; len(rest) > frameHead; rest = rest[frameHead:] {
		length := binary.LittleEndian.Uint64(rest)
		n := length & lengthMask
		// A hard state has three numbers of up to 11 bytes.
		if n == 0 || n > 64 || length != frameLength(int(n)) || int(n) > len(rest)-frameHead {
			continue
		}
		rec, err := parseRecord(rest[frameHead : frameHead+int(n)])
		if err != nil || rec.kind != kindState {
			continue
		}
		if h, err := parseHardState(rec.data); err == nil && h.Term > 0 {
			most = max(most, h.Commit)
		}
	}
	return most
}

// behind reads what follows off, up to the last byte that is not zero. Unwritten
// space, of which a segment has up to 64 MB, is passed over where skip, given an
// offset, knows the next that has data.
func behind(f io.ReaderAt, off, size int64, skip func(int64) int64) ([]byte, error) {
	var all []byte
	buf, zeros := make([]byte, 1<<18), make([]byte, 1<<18)
	for at := skip(off); at < size; at = skip(at) {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if n == 0 {
			return nil, fmt.Errorf("read behind the end of the log: %w", err)
		}
		// Compared whole, since 64 MB byte by byte take longer than all the rest.
		if !bytes.Equal(buf[:n], zeros[:n]) {
			kept := bytes.TrimRight(buf[:n], "\x00")
			all = append(all, make([]byte, at-off-int64(len(all)))...)
			all = append(all, kept...)
		}
		at += int64(n)
	}
	return all, nil
}
