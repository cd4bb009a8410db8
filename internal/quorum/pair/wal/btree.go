package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// A bbolt file is pages of a B+ tree whose values may be trees of their own,
// called buckets. The library that writes it maps the file and trusts what it
// finds; on a damaged one it may fault, panic or descend for ever. Here a few
// small buckets are read from it, each length and each step checked.
const (
	btreeMagic, btreeVersion = 0xED0CDAED, 2

	metaSize    = 64 // behind the page's head; the last 8 are its sum
	pageHead    = 16
	elementSize = 16

	branchPage, leafPage = 0x01, 0x02
	bucketElement        = 0x01

	// mostPages is far beyond the few that the buckets of the membership take,
	// and mostBytes beyond what a page holds there: values are of a kilobyte.
	mostPages = 4096
	mostBytes = 1 << 20
	mostDepth = 32
)

var errTree = errors.New("not a sound B+ tree")

// tree reads one state of a bbolt file: that of its newest whole meta page.
type tree struct {
	f        io.ReaderAt
	pageSize int64
	pages    uint64 // all page ids are below
	root     uint64
	left     int // pages that may still be read
}

// openTree finds the newest meta page. There are two, written in turn, so that one
// is whole after a crash.
func openTree(f io.ReaderAt) (*tree, error) {
	var newest uint64
	var t *tree
	look := func(at int64) {
		b := make([]byte, pageHead+metaSize)
		if _, err := f.ReadAt(b, at); err != nil {
			return
		}
		m := b[pageHead:]
		sum := fnv.New64a()
		_, _ = sum.Write(m[:metaSize-8])
		u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
		size, tx := int64(u32(m[8:])), u64(m[48:])
		if u32(m) != btreeMagic || u32(m[4:]) != btreeVersion || u64(m[56:]) != sum.Sum64() {
			return
		}
		if t == nil || tx > newest {
			newest = tx
			t = &tree{f: f, pageSize: size, root: u64(m[16:]), pages: u64(m[40:]), left: mostPages}
		}
	}
	look(0)
	if t != nil {
		look(t.pageSize)
	}
	for size := int64(1 << 10); t == nil && size <= 64<<10; size <<= 1 {
		look(size)
	}
	if t == nil {
		return nil, fmt.Errorf("%w: no whole meta page", errTree)
	}
	if t.pageSize < 512 || t.pageSize > 64<<10 {
		return nil, fmt.Errorf("%w: pages of %d bytes", errTree, t.pageSize)
	}
	return t, nil
}

// page reads a page with those that it overflows into.
func (t *tree) page(id uint64) ([]byte, error) {
	if t.left--; t.left < 0 {
		return nil, fmt.Errorf("%w: more than %d pages", errTree, mostPages)
	}
	if id >= t.pages || id > 1<<40 {
		return nil, fmt.Errorf("%w: page %d of %d", errTree, id, t.pages)
	}
	head := make([]byte, pageHead)
	at := int64(id) * t.pageSize
	if _, err := t.f.ReadAt(head, at); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	size := (int64(binary.LittleEndian.Uint32(head[12:])) + 1) * t.pageSize
	if binary.LittleEndian.Uint64(head) != id || size > mostBytes {
		return nil, fmt.Errorf("%w: page %d", errTree, id)
	}
	b := make([]byte, size)
	if _, err := t.f.ReadAt(b, at); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	return b, nil
}

// element is one place of a page: a key with a value, a bucket or a page below.
type element struct {
	key, value []byte
	bucket     bool
	child      uint64
}

// elements takes a page apart.
func elements(page []byte) (all []element, branch bool, err error) {
	if len(page) < pageHead {
		return nil, false, fmt.Errorf("%w: a page of %d bytes", errTree, len(page))
	}
	flags, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	if flags != branchPage && flags != leafPage {
		return nil, false, fmt.Errorf("%w: a page of kind %#x", errTree, flags)
	}
	u32 := binary.LittleEndian.Uint32
	for i := range count {
		at := pageHead + i*elementSize
		if at+elementSize > len(page) {
			return nil, false, fmt.Errorf("%w: %d elements in a page of %d bytes", errTree, count, len(page))
		}
		e, rest := page[at:at+elementSize], page[at:]
		var pos, key, value uint64
		var one element
		if flags == branchPage {
			pos, key, one.child = uint64(u32(e)), uint64(u32(e[4:])), binary.LittleEndian.Uint64(e[8:])
		} else {
			one.bucket = u32(e)&bucketElement != 0
			pos, key, value = uint64(u32(e[4:])), uint64(u32(e[8:])), uint64(u32(e[12:]))
		}
		if pos+key+value > uint64(len(rest)) {
			return nil, false, fmt.Errorf("%w: an element beyond its page", errTree)
		}
		one.key, one.value = rest[pos:pos+key], rest[pos+key:pos+key+value]
		all = append(all, one)
	}
	return all, flags == branchPage, nil
}

// walk goes through the elements below a page in the order of their keys. That
// they are in order is checked, since others search by it.
type walk struct {
	*tree
	last []byte // the key before
	any  bool   // whether there was one
}

func (w *walk) each(page []byte, depth int, f func(element) error) error {
	all, branch, err := elements(page)
	if err != nil {
		return err
	}
	if depth > mostDepth {
		return fmt.Errorf("%w: %d pages deep", errTree, depth)
	}
	for i, e := range all {
		// The first key of a branch stands for all that are less.
		if w.any && (!branch || i > 0) && bytes.Compare(e.key, w.last) <= 0 {
			return fmt.Errorf("%w: keys out of order", errTree)
		}
		if branch {
			err = w.below(e, i > 0, depth, f)
		} else {
			w.last, w.any = e.key, true
			err = f(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below goes through the page of a branch's element, whose keys are not less
// than the element's.
func (w *walk) below(e element, bound bool, depth int, f func(element) error) error {
	page, err := w.page(e.child)
	if err != nil {
		return err
	}
	first := true
	return w.each(page, depth+1, func(leaf element) error {
		if first && bound && bytes.Compare(leaf.key, e.key) < 0 {
			return fmt.Errorf("%w: keys out of order", errTree)
		}
		first = false
		return f(leaf)
	})
}

// bucket calls f for every key of a bucket of the first rank. One that does not
// exist has none.
func (t *tree) bucket(name string, f func(key, value []byte) error) error {
	root, err := t.page(t.root)
	if err != nil {
		return err
	}
	var found []byte
	err = (&walk{tree: t}).each(root, 0, func(e element) error {
		if e.bucket && bytes.Equal(e.key, []byte(name)) {
			found = e.value
		}
		return nil
	})
	if err != nil || found == nil {
		return err
	}
	if len(found) < 16 {
		return fmt.Errorf("%w: bucket %s", errTree, name)
	}
	page := found[16:] // small buckets stand in their parent
	if id := binary.LittleEndian.Uint64(found); id != 0 {
		if page, err = t.page(id); err != nil {
			return err
		}
	}
	return (&walk{tree: t}).each(page, 0, func(e element) error {
		if e.bucket {
			return nil
		}
		return f(e.key, e.value)
	})
}
