package wal

import (
	"errors"
	"fmt"
	"io"
)

// scanned is what a directory's log came to, and where it goes on.
type scanned struct {
	log log
	// tail is the segment that the next record goes into, at offset end, with a
	// sum that goes on from crc.
	tail *segment
	end  int64
	crc  uint32
	// rest is what stands behind end, up to its last byte that is not zero: a
	// write cut short.
	rest []byte
	// why the first record behind end could not be read, nil at a clean end.
	cut error
}

// scan reads all segments to the end. It holds one record in memory at a time.
func scan(all segments) (*scanned, error) {
	s := &scanned{}
	for i, seg := range all {
		if i > 0 && seg.seq != all[i-1].seq+1 {
			return nil, refuse(Damaged, remedyDamaged, "the segment between %s and %s is missing", all[i-1].name, seg.name)
		}
		if err := s.segment(seg, i == len(all)-1); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// segment reads one segment and goes on from its sum.
func (s *scanned) segment(seg *segment, last bool) error {
	r := newReader(io.NewSectionReader(seg.file, 0, seg.size), seg.size, s.crc)
	count := 0
	for ; ; count++ {
		rec, err := r.next()
		if err == nil {
			err = s.take(r, rec, count)
			if err != nil {
				err = fmt.Errorf("%w: %w", errDamage, err)
			}
		}
		if err == nil {
			continue
		}
		if count < 2 {
			// Segments appear whole, by rename, with their head synced.
			return refuse(Damaged, remedyDamaged, "%s has no head: %v", seg.name, err)
		}
		if err := s.ended(seg, r, err, last); err != nil {
			return err
		}
		s.tail, s.end, s.crc = seg, r.off, r.crc
		return nil
	}
}

// take applies a record. Each segment begins with the sum so far and the
// metadata; only the oldest may begin with any sum.
func (s *scanned) take(r *reader, rec record, count int) error {
	switch {
	case (count == 0) != (rec.kind == kindCRC), (count == 1) != (rec.kind == kindMetadata):
		return fmt.Errorf("record %d is of kind %d", count, rec.kind)
	case rec.kind == kindCRC:
		if s.tail != nil && rec.crc != s.crc {
			return errSum
		}
		r.crc = rec.crc
		return nil
	}
	return s.log.apply(rec)
}

// ended judges why a segment could be read no further.
func (s *scanned) ended(seg *segment, r *reader, cause error, last bool) error {
	damaged := func(err error) error {
		if !errors.Is(err, errDamage) {
			return fmt.Errorf("read %s at %d: %w", seg.name, r.off, err)
		}
		return refuse(Damaged, remedyDamaged, "%s at offset %d: %v", seg.name, r.off, err)
	}
	if !errors.Is(cause, errEnd) {
		if !last {
			if err := torn(r, cause); err != nil {
				return damaged(err)
			}
			return refuse(Damaged, remedyDamaged, "%s at offset %d: %v in a segment that is not the last", seg.name, r.off, cause)
		}
		if err := torn(r, cause); err != nil {
			return damaged(err)
		}
		s.cut = cause
	}
	rest, err := behind(seg.file, r.off, seg.size, seg.skip)
	if err != nil {
		return err
	}
	s.rest = rest
	if len(rest) == 0 || s.cut != nil {
		return nil
	}
	if !last {
		return refuse(Damaged, remedyDamaged, "%s at offset %d: the log stops before the end of a segment that is not the last", seg.name, r.off)
	}
	s.cut = errEnd
	if len(rest) > frameHead {
		if err := emptyAt(r.off, rest[frameHead:]); err != nil {
			return damaged(err)
		}
	}
	return nil
}
