package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Protocol marks our routes (`proto 249` of ip route) unless Options say
// otherwise. Neither the kernel, nor iproute2, nor a known daemon uses it.
const Protocol = 249

// Options say where routes go; they are the part `route` of vip.yaml.
type Options struct {
	// Table is the table's number or its name in /etc/iproute2/rt_tables.
	Table string `yaml:"table"`
	// Protocol is Protocol when 0. Two agents on one machine need two.
	Protocol int `yaml:"protocol"`
	// Metric is the route's priority; 0 is the kernel's default.
	Metric int `yaml:"metric"`
	// Interface is where the routes point; "" is lo, where the addresses are
	// this machine's own.
	Interface string       `yaml:"interface"`
	Log       *slog.Logger `yaml:"-"`
}

// Validate returns an error of one line that names field, value and remedy.
func (o *Options) Validate() error {
	if _, err := number(o.Table, "/etc/iproute2", "/usr/share/iproute2"); err != nil {
		return err
	}
	switch {
	case o.Protocol < 0 || o.Protocol > 0 && o.Protocol <= unix.RTPROT_STATIC || o.Protocol > 255:
		return fmt.Errorf("protocol: %d is out of range or the kernel's; use 5 to 255, or leave it out for %d", o.Protocol, Protocol)
	case o.Metric < 0:
		return fmt.Errorf("metric: %d is negative; use 0 or more", o.Metric)
	case len(o.Interface) > 15:
		return fmt.Errorf("interface: %q is longer than the 15 characters that a name has; correct it", o.Interface)
	}
	return nil
}

// number of a table.
func number(text string, dirs ...string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		var ok bool
		if n, ok = named(text, dirs); !ok {
			return 0, fmt.Errorf("table: %q is neither a number nor a name in /etc/iproute2/rt_tables; use a number such as 198", text)
		}
	}
	if n < 1 || n == unix.RT_TABLE_LOCAL || n > 1<<31-1 {
		return 0, fmt.Errorf("table: %d is out of range or the table of local addresses; use another, such as 198", n)
	}
	return n, nil
}

// named looks a table up as iproute2 does: one line a table, number and name.
func named(name string, dirs []string) (int, bool) {
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "rt_tables.d", "*.conf"))
		for _, file := range append(files, filepath.Join(dir, "rt_tables")) {
			data, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(data)) {
				line, _, _ = strings.Cut(line, "#")
				fields := strings.Fields(line)
				if len(fields) == 2 && fields[1] == name {
					if n, err := strconv.ParseInt(fields[0], 0, 32); err == nil {
						return int(n), true
					}
				}
			}
		}
	}
	return 0, false
}

// Table is a table of routes, in the network namespace of the thread that opened
// it. All methods are safe for concurrent use.
type Table struct {
	options Options
	table   int
	log     *slog.Logger
	nl      *netlink.Handle
	space   netns

	// wake has Run look at the table.
	wake chan struct{}

	mu sync.Mutex // guards the rest
	// want says of each address whether its route has been there.
	want map[netip.Addr]bool
	// mended counts routes that were put back.
	mended uint64
	// trouble is what keeps the table from being as it should, in words.
	trouble string
}

// Open takes hold of the table and removes what an earlier run has left.
func Open(o Options) (*Table, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Protocol == 0 {
		o.Protocol = Protocol
	}
	if o.Interface == "" {
		o.Interface = "lo"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	n, err := number(o.Table, "/etc/iproute2", "/usr/share/iproute2")
	if err != nil {
		return nil, err
	}
	t := &Table{options: o, table: n, log: o.Log.With("table", n), wake: make(chan struct{}, 1), want: map[netip.Addr]bool{}}
	if t.space, err = here(); err != nil {
		return nil, err
	}
	if t.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, errors.Join(fmt.Errorf("open netlink: %w", err), t.space.Close())
	}
	left, err := t.present()
	for a, r := range left {
		t.log.Info("removing a route that an earlier run has left", "address", a)
		err = errors.Join(err, t.remove(r))
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close removes all routes.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.want)
	left, err := t.present()
	for _, r := range left {
		err = errors.Join(err, t.remove(r))
	}
	t.nl.Close()
	return errors.Join(err, t.space.Close())
}

// Up has the routing daemon announce an address. What fails is done again by Run.
func (t *Table) Up(a netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a = a.WithZone("")
	if _, ok := t.want[a]; ok {
		return
	}
	err := t.add(a)
	t.want[a] = err == nil
	t.failed(err)
}

// Down takes an address back.
func (t *Table) Down(a netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a = a.WithZone("")
	if _, ok := t.want[a]; ok {
		delete(t.want, a)
		t.failed(t.remove(t.host(a)))
	}
}

// Yield changes nothing: a route in a table says of no other that it is better.
func (t *Table) Yield(netip.Addr) {}

// Grace is for how long packets are under way for an address after Down: a
// routing daemon and its routers have no more to do than after a withdrawal by BGP.
func (t *Table) Grace() time.Duration { return grace }

const grace = 500 * time.Millisecond

// Retreat is Down and Grace.
func (t *Table) Retreat(a netip.Addr) time.Duration {
	t.Down(a)
	return grace
}

// Routes is how many addresses are to be announced.
func (t *Table) Routes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.want)
}

// Number is that of the table.
func (t *Table) Number() int { return t.table }

// Trouble is why the table is not as it should be, or "".
func (t *Table) Trouble() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trouble
}

// Mended counts the routes that were put back after others had removed them.
func (t *Table) Mended() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mended
}

func (t *Table) add(a netip.Addr) error {
	link, err := t.nl.LinkByName(t.options.Interface)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", t.options.Interface, err)
	}
	r := t.host(a)
	r.LinkIndex = link.Attrs().Index
	if err := t.nl.RouteReplace(&r); err != nil {
		return fmt.Errorf("add route to %v in table %d: %w", a, t.table, err)
	}
	return nil
}

// host is the route of an address, but for its interface.
func (t *Table) host(a netip.Addr) netlink.Route {
	return netlink.Route{
		Dst:   &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())},
		Table: t.table, Protocol: netlink.RouteProtocol(t.options.Protocol), Priority: t.options.Metric,
		Type: unix.RTN_UNICAST, Scope: netlink.SCOPE_LINK,
	}
}

func (t *Table) remove(r netlink.Route) error {
	if err := t.nl.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("remove route to %v from table %d: %w", r.Dst, t.table, err)
	}
	return nil
}

// present are our host routes in the table.
func (t *Table) present() (map[netip.Addr]netlink.Route, error) {
	found := map[netip.Addr]netlink.Route{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		filter := &netlink.Route{Table: t.table, Protocol: netlink.RouteProtocol(t.options.Protocol)}
		list, err := t.nl.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return found, fmt.Errorf("list routes of table %d: %w", t.table, err)
		}
		for _, r := range list {
			if a, ok := hostOf(&r); ok {
				found[a] = r
			}
		}
	}
	return found, nil
}

func hostOf(r *netlink.Route) (netip.Addr, bool) {
	if r.Dst == nil {
		return netip.Addr{}, false
	}
	a, ok := netip.AddrFromSlice(r.Dst.IP)
	ones, bits := r.Dst.Mask.Size()
	return a, ok && ones == bits
}

// settle brings the table to what is wanted. It goes through all routes of the
// table, of which there may be many. Called with mu held.
func (t *Table) settle() {
	present, err := t.present()
	if err == nil {
		for a, r := range present {
			if _, ok := t.want[a]; !ok {
				err = errors.Join(err, t.remove(r))
			}
		}
		for a, was := range t.want {
			if _, ok := present[a]; ok {
				continue
			}
			failed := t.add(a)
			err = errors.Join(err, failed)
			t.want[a] = was || failed == nil
			if failed == nil && was {
				t.mended++
				t.log.Warn("put a route back that was missing", "address", a)
			}
		}
	}
	if err == nil && t.trouble != "" {
		t.log.Info("routes are as they should be")
		t.trouble = ""
	}
	t.failed(err)
}

// failed has Run do again what has failed. Called with mu held.
func (t *Table) failed(err error) {
	if err == nil {
		return
	}
	was := t.trouble
	t.trouble = strings.ReplaceAll(err.Error(), "\n", "; ")
	if t.trouble != was {
		t.log.Warn("routes are not as they should be", "error", t.trouble)
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// survey is how often the table is looked through beside the kernel's word of
// changes, which it drops when there are too many; again is how soon after a
// failure.
const (
	survey = 10 * time.Second
	again  = time.Second
)

// Run puts routes back that others remove, and does again what has failed, until
// ctx ends.
func (t *Table) Run(ctx context.Context) error {
	updates, done := make(chan netlink.RouteUpdate, 64), make(chan struct{})
	defer close(done)
	err := netlink.RouteSubscribeWithOptions(updates, done, netlink.RouteSubscribeOptions{
		Namespace:     t.space.handle(),
		ErrorCallback: func(err error) { t.log.Debug("changes of routes were missed", "error", err) },
	})
	if err != nil {
		return fmt.Errorf("subscribe to routes: %w", err)
	}
	// The first look is for what changed before.
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case u, ok := <-updates:
			if !ok {
				updates = nil // from here on by the survey alone
				continue
			}
			if u.Type != unix.RTM_DELROUTE || u.Table != t.table {
				continue
			}
		case <-t.wake:
			timer.Reset(again)
			continue
		case <-timer.C:
		}
		timer.Reset(survey)
		t.mu.Lock()
		t.settle()
		t.mu.Unlock()
	}
}
