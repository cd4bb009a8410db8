package relay

// alarm is a point in time at which a loop does something; it is part of what
// it wakes. Times are nanoseconds of the engine's clock.
type alarm struct {
	// at is meaningless while index is 0.
	at int64
	// index is the place in the heap plus one; 0 means not set.
	index int
	// session is woken, or fire called; one of the two is set.
	session *session
	fire    func(l *loop)
}

// timers is a heap of alarms with the next one first. Setting an alarm that is
// set already moves it.
type timers struct {
	heap []entry
}

// entry keeps the time beside the pointer, so that comparing two does not
// touch what they point at.
type entry struct {
	at int64
	a  *alarm
}

// next returns the time of the first alarm.
func (t *timers) next() (int64, bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].at, true
}

// due takes the first alarm off if its time has come.
func (t *timers) due(now int64) *alarm {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return nil
	}
	a := t.heap[0].a
	t.stop(a)
	return a
}

func (t *timers) set(a *alarm, at int64) {
	a.at = at
	if a.index == 0 {
		t.heap = append(t.heap, entry{at, a})
		a.index = len(t.heap)
		t.up(a.index - 1)
		return
	}
	i := a.index - 1
	t.heap[i].at = at
	if !t.up(i) {
		t.down(i)
	}
}

func (t *timers) stop(a *alarm) {
	if a.index == 0 {
		return
	}
	i, last := a.index-1, len(t.heap)-1
	a.index = 0
	if i != last {
		t.place(i, t.heap[last])
	}
	t.heap[last] = entry{}
	t.heap = t.heap[:last]
	if i != last && !t.up(i) {
		t.down(i)
	}
}

func (t *timers) place(i int, e entry) {
	t.heap[i] = e
	e.a.index = i + 1
}

func (t *timers) up(i int) bool {
	e, moved := t.heap[i], false
	for i > 0 {
		parent := (i - 1) / 2
		if t.heap[parent].at <= e.at {
			break
		}
		t.place(i, t.heap[parent])
		i, moved = parent, true
	}
	t.place(i, e)
	return moved
}

func (t *timers) down(i int) {
	e := t.heap[i]
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			break
		}
		if child+1 < len(t.heap) && t.heap[child+1].at < t.heap[child].at {
			child++
		}
		if t.heap[child].at >= e.at {
			break
		}
		t.place(i, t.heap[child])
		i = child
	}
	t.place(i, e)
}
