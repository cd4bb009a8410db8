package balance

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	// watchEvery is how often the settings file is looked at.
	watchEvery = time.Second
	// settleAfter is between two looks that must agree before a changed file
	// is read: the first half of a file may be valid, too. An editor or a
	// kubelet takes milliseconds to write one.
	settleAfter = 200 * time.Millisecond
)

// steer does what signals ask for, and keeps what is judged by the second. It
// touches no file: one on a file system that hangs would hold everything up.
func (p *process) steer(ctx context.Context, signals <-chan os.Signal, reread chan<- struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			if s == syscall.SIGUSR2 {
				p.startSuccessor()
				continue
			}
			select {
			case reread <- struct{}{}:
			default: // asked already
			}
		case <-tick.C:
			p.judgeReady()
			p.forgetRetired()
			p.steered.Add(1)
		}
	}
}

// follow reads the settings again when the file has changed, and at once when
// somebody asks.
func (p *process) follow(ctx context.Context, s sight, reread <-chan struct{}) {
	timer := time.NewTimer(s.pause())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-reread:
			s.take(stamp(p.file))
			p.reload()
		case <-timer.C:
			if s.look(stamp(p.file)) {
				p.reload()
			}
		}
		timer.Reset(s.pause())
	}
}

// sight is what was seen of the settings file. A stamp of "" is a file that
// cannot be read: an editor at work, not a wish.
type sight struct {
	taken string // of the content that was read last
	last  string // of the last look
}

// look says whether to read the file: it differs from what was read, and is
// the same as at the look before.
func (s *sight) look(now string) bool {
	settled := now == s.last
	s.last = now
	if now == "" || now == s.taken || !settled {
		return false
	}
	s.taken = now
	return true
}

// take notes that the file is read in any case.
func (s *sight) take(now string) { s.taken, s.last = now, now }

// pause is how long the next look may wait.
func (s *sight) pause() time.Duration {
	if s.last != "" && s.last != s.taken {
		return settleAfter
	}
	return watchEvery
}

// stamp identifies the content of a file as it is now; "" when it cannot be
// read.
func stamp(path string) string {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return ""
	}
	inode := uint64(0)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), inode)
}

// reload puts the settings as they are now in force, or keeps the old ones and
// says why.
func (p *process) reload() {
	settings, err := p.load()
	if err == nil {
		err = p.apply(settings)
	}
	p.noteReload(settings, err)
}

// noteReload makes known what became of settings.
func (p *process) noteReload(settings Settings, err error) {
	p.mu.Lock()
	p.reloadErr, p.reloaded = err, time.Now()
	p.mu.Unlock()
	p.stats.reloaded(err)
	if err != nil {
		p.log.Error("settings not taken; the old ones stay in force", keyError, err.Error())
		return
	}
	p.log.Info("settings taken", "frontends", len(settings.Frontends))
}
