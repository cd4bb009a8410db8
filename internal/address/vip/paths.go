package vip

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/announce/bgp"
	"github.com/holdfast-ha/holdfast/internal/address/bfd"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// paths are the sessions of BFD of this process. Two ends have one session, RFC
// 5881 section 3, whoever rests on it here: BGP, checks, or both.
type paths struct {
	manager *bfd.Manager

	mu      sync.Mutex
	by      map[neighbor]*path
	handles []*bfd.Handle
}

// neighbor is the other end of a path; the interface may be "".
type neighbor struct {
	address netip.Addr
	device  string
}

func newNeighbor(a netip.Addr, device string) neighbor {
	return neighbor{a.WithZone(""), cmp.Or(device, a.Zone())}
}

// path is what checks know of one session.
type path struct {
	to neighbor

	mu      sync.Mutex
	verdict health.Verdict
	told    []func(health.Verdict)
	anew    *time.Timer // runs while the session has begun anew
}

// anewWithin is how long a session that its peer began anew may take to come up
// again: three packets at the second's interval of sessions that are down, with
// one of them lost.
const anewWithin = 5 * time.Second

// needs says which sessions settings want, and with what timers: those of BGP come
// from it.
func (s *Settings) needs() (all map[neighbor]bfd.Timers, byBGP map[neighbor]bool) {
	all, byBGP = map[neighbor]bfd.Timers{}, map[neighbor]bool{}
	for i := range s.Groups {
		for k := range s.Groups[i].Health {
			if h := &s.Groups[i].Health[k]; h.Kind == kindBFD {
				all[h.neighbor()] = h.session()
			}
		}
	}
	if !s.announces(announceBGP) {
		return all, byBGP
	}
	for i := range s.BGP.Peers {
		if p := &s.BGP.Peers[i]; p.BFD != nil {
			byBGP[peerOf(p)] = true
		}
	}
	return all, byBGP
}

func peerOf(p *bgp.PeerSettings) neighbor {
	a, _ := netip.ParseAddr(p.Address)
	return newNeighbor(a, p.Interface)
}

// openPaths opens BFD for what the settings want, or returns nil.
func openPaths(s *Settings, log *slog.Logger) (*paths, error) {
	checked, byBGP := s.needs()
	if len(checked)+len(byBGP) == 0 {
		return nil, nil
	}
	p := &paths{by: map[neighbor]*path{}}
	for n := range checked {
		p.by[n] = &path{to: n, verdict: health.Verdict{Reason: fmt.Sprintf("BFD has not heard %v yet", n.address)}}
	}
	var err error
	if p.manager, err = bfd.New(bfd.Options{Log: log}); err != nil {
		return nil, fmt.Errorf("open BFD: %w", err)
	}
	for n, timers := range checked {
		if byBGP[n] {
			continue
		}
		if _, err := p.Add(bfd.SessionConfig{Peer: n.address, Interface: n.device, Timers: timers}); err != nil {
			p.close()
			return nil, fmt.Errorf("open BFD: %w", err)
		}
	}
	return p, nil
}

// Add implements bgp.Paths: checks learn of the session too.
func (p *paths) Add(c bfd.SessionConfig) (*bfd.Handle, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.by[newNeighbor(c.Peer, c.Interface)]; w != nil {
		owner := c.OnChange
		c.OnChange = func(ch bfd.Change) {
			w.change(ch)
			if owner != nil {
				owner(ch)
			}
		}
	}
	h, err := p.manager.Add(c)
	if err == nil {
		p.handles = append(p.handles, h)
	}
	return h, err
}

// change takes up a change of the session. One that was put away on purpose has
// not failed (RFC 5882 section 3.2), and one that was begun anew has a while.
func (w *path) change(c bfd.Change) {
	switch {
	case c.To == bfd.Up:
		w.judge(health.Ready, "")
	case c.Lost() && c.Diag == bfd.DiagNeighborDown:
		w.judge(health.Unreachable, fmt.Sprintf("BFD: %v does not hear us (%v)", w.to.address, c.RemoteDiag))
	case c.Lost():
		w.judge(health.Unreachable, fmt.Sprintf("BFD: no path to %v (%v)", w.to.address, c.Diag))
	case c.Failed():
		w.mu.Lock()
		defer w.mu.Unlock()
		w.anew = time.AfterFunc(anewWithin, w.overdue)
	}
}

func (w *path) overdue() {
	w.mu.Lock()
	anew := w.anew != nil
	w.mu.Unlock()
	if anew {
		w.judge(health.Unreachable, fmt.Sprintf("BFD: the session with %v was begun anew and did not come up within %v", w.to.address, anewWithin))
	}
}

// judge tells of a verdict. Those who are told may ask for it again.
func (w *path) judge(g health.Grade, reason string) {
	w.mu.Lock()
	if w.anew != nil {
		w.anew.Stop()
		w.anew = nil
	}
	same := w.verdict.Grade == g && w.verdict.Reason == reason
	if !same {
		w.verdict.Grade, w.verdict.Reason, w.verdict.At = g, reason, time.Now()
	}
	v, told := w.verdict, slices.Clone(w.told)
	w.mu.Unlock()
	for _, f := range told {
		if !same {
			f(v)
		}
	}
}

// follow has f told of changes, and of how it stands if that is known.
func (w *path) follow(f func(health.Verdict)) {
	w.mu.Lock()
	w.told = append(w.told, f)
	v := w.verdict
	w.mu.Unlock()
	if v.Grade != health.Unknown {
		f(v)
	}
}

// Verdict is what the session says now.
func (w *path) Verdict() health.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.verdict
}

// run serves the sessions until ctx ends, and then tells the peers so.
func (p *paths) run(ctx context.Context) error { return p.manager.Run(ctx) }

// close gives up what does not run yet.
func (p *paths) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.manager.Run(ctx)
}

// of is the path that a check is about.
func (p *paths) of(h *HealthSettings) *path {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[h.neighbor()]
}

// status of all sessions, those of checks and those of BGP.
func (p *paths) status() (all []bfd.Status, own bfd.Health) {
	p.mu.Lock()
	handles := p.handles
	p.mu.Unlock()
	for _, h := range handles {
		all = append(all, h.Status())
	}
	return all, p.manager.Health()
}
