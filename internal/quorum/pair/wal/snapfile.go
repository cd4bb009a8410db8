package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// startPoint is the entry that etcd goes on from when it starts. 3.7 takes the
// newest snapshot record of the log; 3.5 and 3.6 the newest whole .snap file that
// a record of the log names, and passes over damaged ones.
func startPoint(l *log, base snapshotMark, version, dir string) (uint64, error) {
	if version == "3.7" {
		return base.index, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	for _, e := range slices.Backward(entries) { // by term, then index
		if !strings.HasSuffix(e.Name(), ".snap") {
			continue
		}
		at, err := readSnapFile(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if slices.ContainsFunc(l.marks, func(m snapshotMark) bool { return m.index == at.Index && m.term == at.Term }) {
			return at.Index, l.reaches(at.Index)
		}
	}
	return 0, l.reaches(0)
}

// reaches checks that all entries behind index stand in the log.
func (l *log) reaches(index uint64) error {
	missing := func(first, last uint64) error {
		return refuse(Damaged, remedyDamaged, "etcd would start from its snapshot at entry %d, and entries %d to %d are missing", index, first, last)
	}
	if l.last.Index > index && l.from > index+1 {
		return missing(index+1, l.from-1)
	}
	for _, g := range l.gaps {
		if g.snapshot > index {
			return missing(g.first, g.snapshot)
		}
	}
	return nil
}

// readSnapFile reads where a .snap file stands and checks its sum.
func readSnapFile(path string) (Position, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Position{}, err
	}
	crc, data := uint64(math.MaxUint64), []byte(nil)
	err = fields(b, func(num protowire.Number, v uint64, msg []byte) error {
		switch {
		case num == 1 && msg == nil:
			crc = v
		case num == 2 && msg != nil:
			data = msg
		}
		return nil
	})
	if err != nil || crc != uint64(crc32.Checksum(data, crcTable)) {
		return Position{}, errSum
	}
	var at Position
	err = fields(data, func(num protowire.Number, _ uint64, msg []byte) error {
		if num != 2 || msg == nil {
			return nil
		}
		return fields(msg, func(num protowire.Number, v uint64, b []byte) error {
			switch {
			case num == 2 && b == nil:
				at.Index = v
			case num == 3 && b == nil:
				at.Term = v
			}
			return nil
		})
	})
	return at, err
}
