package wal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// A record stands in a frame: eight bytes of length in little endian, the
// record, and zeros up to the next multiple of eight. The low 56 bits of the
// length are the record's, the top byte is 0x80 and the number of zeros, or 0
// where there are none. A length of 0 ends the segment.
const (
	frameHead  = 8
	lengthMask = 1<<56 - 1
	// maxRecord is far beyond what etcd takes in one request (1.5 MiB, and
	// rarely set to more than 10), and small enough for every int.
	maxRecord = 1 << 30
)

// crcTable is the polynomial of all of etcd's sums. A record's sum goes on from
// the one before it, over segments; only a CRC record at the head of a segment
// sets it.
var crcTable = crc32.MakeTable(crc32.Castagnoli)

func padding(n int) int { return (8 - n%8) % 8 }

func frameLength(n int) uint64 {
	if pad := padding(n); pad != 0 {
		return uint64(n) | uint64(0x80|pad)<<56
	}
	return uint64(n)
}

// appendRecord appends a framed record to b and returns the sum that the next
// record goes on from.
func appendRecord(b []byte, kind uint64, data []byte, crc uint32) ([]byte, uint32) {
	crc = crc32.Update(crc, crcTable, data)
	rec := appendNumbers(nil, kind, uint64(crc))
	rec = protowire.AppendTag(rec, 3, protowire.BytesType)
	rec = protowire.AppendBytes(rec, data)
	b = binary.LittleEndian.AppendUint64(b, frameLength(len(rec)))
	b = append(b, rec...)
	return append(b, make([]byte, padding(len(rec)))...), crc
}

var (
	// errEnd is the end of what was written: the end of the file, or zeros.
	errEnd = errors.New("end of log")
	// errFrame is a length that etcd cannot have written. Lengths are aligned
	// and never torn, so it is damage.
	errFrame = errors.New("a length that etcd does not write")
	// errShort is a record that goes on beyond the end of the file.
	errShort = errors.New("a record that goes on beyond the end of the file")
	// errRecord is a record that is not one.
	errRecord = errors.New("an unreadable record")
	// errSum is a record with another sum than its bytes.
	errSum = errors.New("crc mismatch")
)

// reader reads the records of one segment.
type reader struct {
	r    *bufio.Reader
	size int64 // of the file
	off  int64 // behind the last good record
	crc  uint32
	n    int    // bytes of the record in the last frame read
	body []byte // of that frame, with its zeros; valid until the next
}

func newReader(r io.Reader, size int64, crc uint32) *reader {
	return &reader{r: bufio.NewReaderSize(r, 1<<18), size: size, crc: crc}
}

// next returns the record at off and moves on. After an error off stays where
// it was; all but errEnd come wrapped, and leave in body what was read.
func (r *reader) next() (record, error) {
	r.n, r.body = 0, r.body[:0]
	var head [frameHead]byte
	if n, err := io.ReadFull(r.r, head[:]); n == 0 && err == io.EOF {
		return record{}, errEnd
	} else if err == io.ErrUnexpectedEOF {
		return record{}, errShort
	} else if err != nil {
		return record{}, err
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length == 0 {
		return record{}, errEnd
	}
	n := int64(length & lengthMask)
	if n > maxRecord || length != frameLength(int(n)) {
		return record{}, fmt.Errorf("%w: %#x", errFrame, length)
	}
	r.n = int(n)
	if err := r.fill(r.n); err != nil {
		return record{}, err
	}
	rec, err := r.check(r.n)
	if err != nil {
		return record{}, err
	}
	r.off += frameHead + int64(len(r.body))
	return rec, nil
}

// fill reads the body of a frame with a record of n bytes.
func (r *reader) fill(n int) error {
	whole := n + padding(n)
	if left := r.size - r.off - frameHead; int64(whole) > left {
		whole = int(left)
	}
	if cap(r.body) < whole {
		r.body = make([]byte, whole)
	}
	r.body = r.body[:whole]
	got, err := io.ReadFull(r.r, r.body)
	r.body = r.body[:got]
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF || (err == nil && whole < n+padding(n)):
		return fmt.Errorf("%w: %d of %d bytes", errShort, got, n)
	case err != nil:
		return err
	}
	return nil
}

// check parses the record of n bytes in body and carries its sum on.
func (r *reader) check(n int) (record, error) {
	for _, zero := range r.body[n:] {
		if zero != 0 {
			return record{}, fmt.Errorf("%w: its padding is not zero", errRecord)
		}
	}
	rec, err := parseRecord(r.body[:n])
	if err != nil {
		return record{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	if rec.kind == kindCRC {
		return rec, nil
	}
	crc := crc32.Update(r.crc, crcTable, rec.data)
	if crc != rec.crc {
		return record{}, errSum
	}
	r.crc = crc
	return rec, nil
}
