package relay

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// fillMost is what a direction puts into its pipe at a time, and so what is
	// kept for a reader that stops.
	fillMost = 128 << 10
	// pipeSize has a slot for each segment of fillMost (1448 bytes; a slot
	// counts as a page). Unprivileged users may have 64 MB of pipes
	// (/proc/sys/fs/pipe-user-pages-soft): 128 of these, four loops' quota.
	pipeSize = 512 << 10
	// maxPipes is a loop's quota where descriptors are plenty.
	maxPipes = 32
	// sparePipes are kept per loop; more are closed when given back.
	sparePipes = 4
	// bulkFloor: a wake that carries less is served better by read and write.
	bulkFloor = 48 << 10
	// lookEvery is how often pipes are looked at. One from which a sink has
	// taken less than bulkFloor meanwhile (4 Mbit/s) is taken away.
	lookEvery = 100 * time.Millisecond
)

// pipe is where splice(2) keeps bytes between two sockets.
type pipe struct {
	r, w int
	// held is the number of bytes inside, taken what the sink took since the
	// last look.
	held, taken int
	// flow has borrowed it at the time since; place is where it stands in used.
	flow  *flow
	since int64
	place int
}

func (p *pipe) holds() int {
	if p == nil {
		return 0
	}
	return p.held
}

// pipes are those of a loop. free and used together never exceed quota: the
// descriptors were set aside (room in engine.go).
type pipes struct {
	quota int
	// free are empty.
	free, used []*pipe
	// look is set while any is in use.
	look alarm
}

// get lends an empty pipe, or nil when the quota or the descriptors are used up.
func (ps *pipes) get(f *flow, now int64) *pipe {
	var p *pipe
	if n := len(ps.free); n > 0 {
		p = ps.free[n-1]
		ps.free = ps.free[:n-1]
	} else if len(ps.used) >= ps.quota {
		return nil
	} else if p = newPipe(); p == nil {
		return nil
	}
	p.flow, p.since, p.taken, p.place = f, now, 0, len(ps.used)
	ps.used = append(ps.used, p)
	return p
}

func newPipe() *pipe {
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC) != nil {
		return nil
	}
	// Refused when the user has too many large pipes: a small one serves too.
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize)
	return &pipe{r: fds[0], w: fds[1]}
}

// put takes a pipe back, and closes it when it is not empty or not needed.
func (ps *pipes) put(p *pipe) {
	last := len(ps.used) - 1
	ps.used[p.place] = ps.used[last]
	ps.used[p.place].place = p.place
	ps.used[last] = nil
	ps.used = ps.used[:last]
	p.flow = nil
	if p.held == 0 && len(ps.free) < sparePipes {
		ps.free = append(ps.free, p)
		return
	}
	p.close()
}

func (p *pipe) close() {
	sysClose(p.r)
	sysClose(p.w)
}

func (ps *pipes) close() {
	for _, p := range ps.free {
		p.close()
	}
	ps.free = nil
}

// borrow gives the flow a pipe; without one it goes on with read and write.
func (l *loop) borrow(f *flow) bool {
	if f.pipe != nil {
		return true
	}
	if f.pipe = l.pipes.get(f, l.now); f.pipe == nil {
		f.heat = 0
		return false
	}
	if l.pipes.look.index == 0 {
		l.timers.set(&l.pipes.look, l.now+int64(lookEvery))
	}
	return true
}

// look takes pipes away from directions that have become slow.
func (l *loop) look() {
	ps := &l.pipes
	for i := len(ps.used) - 1; i >= 0; i-- {
		p := ps.used[i]
		slow := p.taken < bulkFloor && l.now-p.since >= int64(lookEvery)
		p.taken = 0
		if slow {
			l.reclaim(p.flow)
		}
	}
	if len(ps.used) > 0 {
		l.timers.set(&ps.look, l.now+int64(lookEvery))
	}
}

// reclaim moves what a flow's pipe holds to memory, where it takes as much as
// it has bytes (in the pipe, up to a page for each segment) and no descriptor.
func (l *loop) reclaim(f *flow) {
	p := f.pipe
	f.rest = slices.Grow(f.rest, p.held)
	for p.held > 0 {
		n, errno := sysRead(p.r, l.buf[:min(p.held, len(l.buf))])
		if errno != 0 || n == 0 {
			return // still in order: the pipe comes after rest
		}
		f.rest = append(f.rest, l.buf[:n]...)
		p.held -= n
	}
	f.heat, f.wide = 0, false
	l.rest(f)
}
