package creds

import (
	"os"
	"sync"
	"time"
)

// checkEvery limits how often the files are looked at: three stat calls a
// second cost nothing, and nobody rotates faster.
const checkEvery = time.Second

// Source holds the last good credentials read from Files. It is safe for
// concurrent use.
type Source struct {
	files Files
	now   func() time.Time

	mu      sync.Mutex
	good    *material
	stamps  [3]os.FileInfo // of the reading that good came from; nil where no file
	checked time.Time
	problem error // why the files as they are now cannot be used; nil when good is current
}

// Open reads the files. It fails when they cannot be used as they are now; an
// expired certificate can (see Check).
func Open(f Files) (*Source, error) { return open(f, time.Now) }

func open(f Files, now func() time.Time) (*Source, error) {
	s := &Source{files: f, now: now}
	s.reload()
	if s.good == nil {
		return nil, s.problem
	}
	return s, nil
}

// NotAfter returns when the own certificate expires; zero when there is none.
func (s *Source) NotAfter() time.Time {
	if m := s.current(false); m.cert != nil {
		return m.cert.Leaf.NotAfter
	}
	return time.Time{}
}

// Check looks at the files and reports, in one line, what a person should
// mend: files that cannot be used (the last good ones are in force), or a
// certificate in force that is outside its validity (wraps ErrExpired).
func (s *Source) Check() error {
	m := s.current(true)
	if err := s.Err(); err != nil {
		return err
	}
	return m.check(s.files, s.now())
}

// Err returns why the files, as last looked at, could not replace the
// credentials in force; nil when those in force are from the files as they are.
func (s *Source) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// current returns the credentials in force, after a look at the files unless
// the last one was under a second ago. With force it always looks.
func (s *Source) current(force bool) *material {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := s.now().Sub(s.checked); force || since >= checkEvery || since < 0 {
		s.reload()
	}
	return s.good
}

// reload reads the files when they are not those that good came from. The
// stamps are taken before the contents, so a change in between is seen as a
// change next time. After a failure the old stamps stay, and so it is tried
// again. The caller holds mu.
func (s *Source) reload() {
	s.checked = s.now()
	stamps := stampsOf(s.files)
	if s.good != nil && s.problem == nil && sameStamps(stamps, s.stamps) {
		return
	}
	m, err := s.files.load()
	s.problem = err
	if err == nil {
		s.good, s.stamps = m, stamps
	}
}

func stampsOf(f Files) (stamps [3]os.FileInfo) {
	for i, path := range []string{f.CA, f.Cert, f.Key} {
		if path != "" {
			stamps[i], _ = os.Stat(path) // a missing file is reported by load
		}
	}
	return stamps
}

// sameStamps compares inode, size and modification time: a rename over the
// file changes the first, a write in place one of the others.
func sameStamps(a, b [3]os.FileInfo) bool {
	for i := range a {
		x, y := a[i], b[i]
		if (x == nil) != (y == nil) {
			return false
		}
		if x != nil && (!os.SameFile(x, y) || x.Size() != y.Size() || !x.ModTime().Equal(y.ModTime())) {
			return false
		}
	}
	return true
}
