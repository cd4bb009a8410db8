package bfd

import (
	"context"
	"log/slog"
	"time"
)

// tick lets every session do what is due.
func (m *Manager) tick(now time.Duration) {
	for _, h := range m.all() {
		m.perform(h, func() []Action { return h.session.Tick(now) })
	}
}

// perform has a session decide and does what it asks for.
func (m *Manager) perform(h *Handle, decide func() []Action) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, action := range decide() {
		switch action := action.(type) {
		case Send:
			h.send(action.Packet)
		case Change:
			h.changed(action)
		}
	}
}

// send is called with mu held. Trouble is logged when it begins, changes and
// ends.
func (h *Handle) send(p Packet) {
	trouble := ""
	if err := h.sender.send(p); err != nil {
		trouble = err.Error()
		h.counters.SendErrors++
	} else {
		h.counters.Sent++
	}
	switch {
	case trouble == h.trouble:
	case trouble == "":
		h.log.Info("BFD packets leave again")
	default:
		h.log.Warn("cannot send BFD packet", "error", trouble)
	}
	h.trouble = trouble
}

// changed is called with mu held.
func (h *Handle) changed(c Change) {
	h.since = time.Now()
	clear(h.complained)
	level := slog.LevelInfo
	switch {
	case c.To == Up:
		h.counters.Ups++
	case c.Failed():
		h.counters.Failures++
		level = slog.LevelWarn
	}
	h.log.Log(context.Background(), level, "BFD session changes", "from", c.From.String(), "to", c.To.String(),
		"diag", c.Diag.String(), "remote", c.Remote.String(), "remote_diag", c.RemoteDiag.String())
	h.tell(c)
}

// leave ends a session on purpose.
func (m *Manager) leave(h *Handle, now time.Duration) {
	m.forget(h)
	m.perform(h, func() []Action {
		if h.leaving {
			return nil
		}
		h.leaving, h.deadline = true, now+Linger
		return h.session.AdminDown(now)
	})
}

// done removes sessions that have ended, and says whether all is over.
func (m *Manager) done(now time.Duration) bool {
	for _, h := range m.all() {
		h.mu.Lock()
		over := h.leaving && (h.session.Released() || now >= h.deadline)
		h.mu.Unlock()
		if over {
			h.sender.close()
			m.mu.Lock()
			delete(m.handles, h.discr)
			m.mu.Unlock()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ending && len(m.handles) == 0
}
