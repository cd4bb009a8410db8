package link

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Watcher reports what happens to interfaces and addresses.
type Watcher struct {
	handle *Handle
	view   *view

	mu      sync.Mutex
	socket  *nl.NetlinkSocket
	stopped bool
}

// NewWatcher watches the interfaces of these names, whether or not they are
// there yet, and these addresses on any interface. The handle stays the
// caller's, and has to stay open.
func NewWatcher(h *Handle, interfaces []string, addrs []netip.Addr) (*Watcher, error) {
	w := &Watcher{handle: h, view: newView(interfaces, addrs)}
	if err := w.subscribe(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Watcher) subscribe() error {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return fmt.Errorf("watch interfaces: %w", err)
	}
	// A node with hundreds of pods sends bursts; the default holds 200 KB. It is
	// a wish: the kernel has its own limit.
	_ = socket.SetReceiveBufferSize(1<<20, false)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.socket != nil {
		w.socket.Close()
	}
	if w.socket = socket; w.stopped {
		socket.Close()
	}
	return nil
}

// Run reports changes until the context ends, beginning with what is there, and
// then returns nil. report is called on this goroutine, in order.
func (w *Watcher) Run(ctx context.Context, report func(Event)) error {
	stop := context.AfterFunc(ctx, w.stop)
	defer stop()
	defer w.stop()
	for {
		// Messages that were sent while the list was made come after it, and
		// then say what the list has said.
		if err := w.compare(report); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		err := w.follow(report)
		if ctx.Err() != nil {
			return nil
		}
		if err != unix.ENOBUFS { // messages were lost
			return fmt.Errorf("watch interfaces: %w", err)
		}
		if err := w.subscribe(); err != nil {
			return err
		}
	}
}

func (w *Watcher) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.socket.Close()
}

func (w *Watcher) compare(report func(Event)) error {
	interfaces, err := w.handle.Interfaces()
	if err != nil {
		return err
	}
	entries, err := w.handle.List()
	if err != nil {
		return err
	}
	tell(report, w.view.replace(interfaces, entries))
	return nil
}

func tell(report func(Event), events []Event) {
	for _, e := range events {
		report(e)
	}
}

// follow takes in messages until one cannot be read.
func (w *Watcher) follow(report func(Event)) error {
	w.mu.Lock()
	socket := w.socket
	w.mu.Unlock()
	for {
		messages, from, err := socket.Receive()
		if err != nil {
			return err
		}
		if from.Pid != nl.PidKernel {
			continue
		}
		for _, m := range messages {
			tell(report, w.view.message(m))
		}
	}
}

// message takes in one of the kernel's. What it does not understand is none of
// its business.
func (v *view) message(m syscall.NetlinkMessage) []Event {
	switch m.Header.Type {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		e, err := parseEntry(m.Data)
		switch {
		case err != nil:
			return nil
		case m.Header.Type == unix.RTM_NEWADDR:
			return v.found(place{e.Index, e.Prefix.Addr()})
		}
		return v.lost(place{e.Index, e.Prefix.Addr()})
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m.Data) < unix.SizeofIfInfomsg {
			return nil
		}
		// A bridge tells of its ports' changes too, in messages of its own family.
		info := nl.DeserializeIfInfomsg(m.Data)
		if info.Family != unix.AF_UNSPEC {
			return nil
		}
		if m.Header.Type == unix.RTM_DELLINK {
			return v.absent(int(info.Index))
		}
		header := unix.NlMsghdr(m.Header)
		l, err := netlink.LinkDeserialize(&header, m.Data)
		if err != nil {
			return nil
		}
		return v.present(describe(l.Attrs()))
	}
	return nil
}
