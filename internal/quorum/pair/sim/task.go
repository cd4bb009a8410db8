package sim

import (
	"iter"
	"time"
)

// task is a thread of an agent, written as one would write it and run as a
// coroutine. Killing the agent ends it where it waits.
type task struct {
	index  int32
	serial uint32 // of its present wait
	next   func() (struct{}, bool)
	stop   func()
	give   func(struct{}) bool
	idle   bool // it waits for nothing but to be woken
}

// dead is what a killed task unwinds with.
type dead struct{}

func (a *agent) spawn(index int32, body func()) {
	t := &a.tasks[index]
	*t = task{index: index, serial: t.serial + 1}
	t.next, t.stop = iter.Pull(func(give func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, killed := r.(dead); !killed {
					panic(r)
				}
			}
		}()
		t.give = give
		body()
	})
}

// yield lets the world go on until this task is resumed.
func (a *agent) yield(t *task) {
	if !t.give(struct{}{}) {
		panic(dead{})
	}
}

// resume runs a task until it waits again.
func (w *World) resume(a *agent, t *task) {
	t.serial++
	t.idle = false
	w.running = t
	t.next()
	w.running = nil
}

// pause waits.
func (a *agent) pause(d time.Duration) {
	t := a.w.running
	t.serial++
	a.w.after(d, event{what: evResume, a: int8(a.site), life: a.life, x: t.index, y: t.serial})
	a.yield(t)
}

// rest waits, or less if it is woken.
func (a *agent) rest(d time.Duration) {
	a.w.running.idle = true
	a.pause(d)
}

// wake ends the rest of a task.
func (a *agent) wake(index int32) {
	if t := &a.tasks[index]; t.idle {
		t.idle = false
		a.w.after(0, event{what: evResume, a: int8(a.site), life: a.life, x: index, y: t.serial})
	}
}

// step is a point at which the agent may die.
func (a *agent) step(low, high time.Duration) {
	s := &a.w.sites[a.site]
	if s.fuse > 0 {
		if s.fuse--; s.fuse == 0 {
			all := int32(0)
			if s.fuseAll {
				all = 1
			}
			a.w.after(0, event{what: evDie, a: int8(a.site), x: all})
		}
	}
	a.pause(a.w.between(low, high))
}
