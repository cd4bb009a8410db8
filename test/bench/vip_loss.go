package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// lossKind is a way to lose frames on the bridge. What is lost on the way to one
// station is not lost on the way to another.
type lossKind struct {
	name, what string
	burst      bool
}

var lossKinds = []lossKind{
	{"vip-loss-random", "2 % of adverts and BFD packets lost", false},
	{"vip-loss-burst", "adverts and BFD packets lost for 150 ms once a second", true},
}

// The machines of a lossy arena: three of ours and three of keepalived with
// adverts, and then pairs with BFD.
const (
	oursFrom, theirsFrom            = 1, 4
	oursPair, mixedPair, theirsPair = 7, 9, 11
	lossy                           = 12
	theirVRID                       = vrid + 1
)

// loss counts failures that are none: ten minutes of each kind at the same time,
// on a bridge each.
func (y *yard) loss(ctx context.Context) ([]Row, error) {
	long := 10 * time.Minute
	if y.quick {
		long = 20 * time.Second
	}
	rows := make([][]Row, len(lossKinds))
	g, ctx := errgroup.WithContext(ctx)
	for i, kind := range lossKinds {
		g.Go(func() (err error) {
			rows[i], err = y.lose(ctx, kind, long)
			return err
		})
	}
	err := g.Wait()
	return append(rows[0], rows[1]...), err
}

func (y *yard) lose(ctx context.Context, kind lossKind, long time.Duration) ([]Row, error) {
	a, err := y.arena(lossy)
	if err != nil {
		return nil, err
	}
	defer a.close()
	for i := range 3 {
		if err := a.ours(oursFrom+i, fmt.Sprintf("    vrrp: {vrid: %d, priority: %d, interval: 100ms}\n", vrid, priorityOf(i+1))); err != nil {
			return nil, err
		}
		if err := a.otherKeepalived(theirsFrom+i, priorityOf(i+1)); err != nil {
			return nil, err
		}
	}
	for _, i := range []int{oursPair, oursPair + 1, mixedPair} {
		if err := a.watchPath(i, a.partner(i)); err != nil {
			return nil, err
		}
	}
	for _, i := range []int{mixedPair + 1, theirsPair, theirsPair + 1} {
		if err := a.bfdd(i, a.partner(i)); err != nil {
			return nil, err
		}
	}
	if !pause(ctx, 8*time.Second) {
		return nil, ctx.Err()
	}
	before, err := a.flaps(ctx)
	if err != nil {
		return nil, err
	}
	lost, err := a.drop(ctx, kind, long)
	if err != nil {
		return nil, err
	}
	after, err := a.flaps(ctx)
	if err != nil {
		return nil, err
	}
	return lossRows(kind, long, lost, after.less(before)), nil
}

// partnerOf a station of a pair: the first has an odd number.
func partnerOf(i int) int { return (i - 1) ^ 1 + 1 }

func (a *arena) partner(i int) netip.Addr { return a.segment.Station(partnerOf(i)).Four }

// otherKeepalived holds another address by another VRID.
func (a *arena) otherKeepalived(i, priority int) error {
	conf, err := a.write(fmt.Sprintf(`global_defs {
  vrrp_version 3
}
vrrp_instance other {
  state BACKUP
  interface %s
  virtual_router_id %d
  priority %d
  advert_int 0.1
  virtual_ipaddress {
    192.0.2.101/32
  }
}
`, segment.Interface, theirVRID, priority), "keepalived-%d.conf", i)
	if err != nil {
		return err
	}
	return a.enlist(i, "keepalived", "keepalived", "--dont-fork", "--log-console", "--vrrp", "--use-file", conf,
		"--pid", a.path("keepalived-%d.pid", i), "--vrrp_pid", a.path("keepalived-%d-vrrp.pid", i))
}

// watchPath runs ours with nothing but a BFD session that gates an address.
func (a *arena) watchPath(i int, to netip.Addr) error {
	path, err := a.write(fmt.Sprintf(`
groups:
  - name: path
    addresses: [203.0.113.20]
    interface: lo
    anycast: {}
    announce: [route]
    health: [{name: path, kind: bfd, address: %s, interval: 100ms, multiplier: 3}]
route: {table: 198}
control: %s
telemetry: {listen: "%s:9389"}
`, to, a.socket(i), a.segment.Station(i).Four), "vip-%d.yaml", i)
	if err != nil {
		return err
	}
	return a.enlist(i, "holdfast", a.y.binary, "vip", "run", "--config", path)
}

// bfdd runs FRR's with one session.
func (a *arena) bfdd(i int, to netip.Addr) error {
	if err := a.zebra(i); err != nil {
		return err
	}
	return a.daemon(i, "bfdd", frr.Config{BFD: fastBFD}.BFDD()+fmt.Sprintf(" peer %s interface %s\n  profile lab\n", to, segment.Interface))
}

// losing are rules that lose what stands after the match of each protocol.
func losing(kind lossKind) string {
	text := "table bridge loss { counter lost { }; set adverts { type inet_proto; flags timeout; }; set paths { type inet_service; flags timeout; }; " +
		"chain c { type filter hook forward priority 0; "
	for _, match := range []string{"ip protocol", "udp dport"} {
		what, set := "112", "@adverts"
		if match == "udp dport" {
			what, set = "3784", "@paths"
		}
		rule := fmt.Sprintf("%s %s numgen random mod 1000 < 20", match, what)
		if kind.burst {
			rule = fmt.Sprintf("%s %s", match, set)
		}
		text += rule + " counter name lost drop; "
	}
	return text + "}; }"
}

// bursting opens a burst once a second.
const bursting = `while nft "add element bridge loss adverts { 112 timeout 150ms }; add element bridge loss paths { 3784 timeout 150ms }"; do sleep 1; done`

// drop loses frames for a while and returns how many.
func (a *arena) drop(ctx context.Context, kind lossKind, long time.Duration) (int, error) {
	hub, err := space.NewSpawner(a.segment.Hub())
	if err != nil {
		return 0, err
	}
	defer hub.Close()
	script := fmt.Sprintf("nft '%s' && sleep 1000000", losing(kind))
	if kind.burst {
		script = fmt.Sprintf("nft '%s' && %s", losing(kind), bursting)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Stderr = os.Stderr
	if err := hub.Start(cmd); err != nil {
		return 0, err
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	if !pause(ctx, long) {
		return 0, ctx.Err()
	}
	return a.lost()
}

// lost reads the counter of what was dropped.
func (a *arena) lost() (n int, err error) {
	err = a.segment.Hub().Do(func() error {
		out, err := exec.Command("nft", "list", "counter", "bridge", "loss", "lost").Output()
		if err != nil {
			return fmt.Errorf("read counter: %w", err)
		}
		_, rest, _ := strings.Cut(string(out), "packets ")
		n, err = strconv.Atoi(strings.Fields(rest + " ?")[0])
		return err
	})
	return n, err
}

// flapping counts the failures that were none.
type flapping struct{ ours, theirs, oursBFD, mixedBFD, theirsBFD int }

func (f flapping) less(b flapping) flapping {
	return flapping{f.ours - b.ours, f.theirs - b.theirs, f.oursBFD - b.oursBFD, f.mixedBFD - b.mixedBFD, f.theirsBFD - b.theirsBFD}
}

// flaps reads how often somebody else sent adverts, and how often either end of a
// pair has lost the other.
func (a *arena) flaps(ctx context.Context) (f flapping, err error) {
	f.ours, f.theirs = a.adverts.changes(vrid), a.adverts.changes(theirVRID)
	for _, p := range []struct {
		at  int
		ask [2]func(context.Context, int) (int, error)
		to  *int
	}{
		{oursPair, [2]func(context.Context, int) (int, error){a.ourFailures, a.ourFailures}, &f.oursBFD},
		{mixedPair, [2]func(context.Context, int) (int, error){a.ourFailures, a.theirFailures}, &f.mixedBFD},
		{theirsPair, [2]func(context.Context, int) (int, error){a.theirFailures, a.theirFailures}, &f.theirsBFD},
	} {
		for i, ask := range p.ask {
			n, err := ask(ctx, p.at+i)
			if err != nil {
				return f, err
			}
			*p.to = max(*p.to, n)
		}
	}
	return f, nil
}

// theirFailures asks bfdd.
func (a *arena) theirFailures(ctx context.Context, i int) (int, error) {
	var peers []struct {
		Down int `json:"session-down"`
	}
	if err := (frr.Console{Dir: a.path("frr-%d", i)}).JSON(ctx, "bfdd", "show bfd peers counters json", &peers); err != nil {
		return 0, err
	}
	if len(peers) != 1 {
		return 0, fmt.Errorf("bfdd of station %d has %d sessions", i, len(peers))
	}
	return peers[0].Down, nil
}

// ourFailures asks our agent's metrics.
func (a *arena) ourFailures(ctx context.Context, i int) (int, error) {
	s := a.segment.Station(i)
	web := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
			err = s.Do(func() error { c, err = (&net.Dialer{}).DialContext(ctx, network, address); return err })
			return c, err
		},
	}}
	r, err := web.Get(fmt.Sprintf("http://%s:9389/metrics", s.Four))
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Body.Close() }()
	return failures(r.Body)
}

// failures sums up what a page of metrics says of failed BFD sessions.
func failures(page io.Reader) (n int, err error) {
	sessions := 0
	for lines := bufio.NewScanner(page); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok || !strings.HasPrefix(name, "holdfast_vip_bfd_failures_total{") {
			continue
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read metrics: %w", err)
		}
		sessions++
		n += int(f)
	}
	if sessions == 0 {
		return 0, errors.New("read metrics: no session of BFD")
	}
	return n, nil
}

func lossRows(kind lossKind, long time.Duration, lost int, f flapping) []Row {
	note := fmt.Sprintf("%s for %s, %d in all; %s", kind.what, long, lost, load())
	row := func(name string, ours, bar, peer int, by, what string) Row {
		p := float64(peer)
		return atMost(kind.name+name, "flaps", float64(ours), float64(bar), what+"; "+note).against(by, &p)
	}
	together := f.theirs + f.theirsBFD
	return []Row{
		row("-vrrp", f.ours, 0, f.theirs, keepalivedName, "three machines, adverts every 100 ms; changes of who sends them"),
		row("-bfd", f.oursBFD, 0, f.theirsBFD, frrBFDName, "two of ours, 100 ms x 3; the peer with itself"),
		row("-bfd-mixed", f.mixedBFD, f.theirsBFD, f.theirsBFD, frrBFDName, "ours with FRR, 100 ms x 3; the bar is the peer with itself"),
		row("-together", f.ours+f.oursBFD, together, together, keepalivedName+" and "+frrBFDName, "the first two rows together; the bar is the peers"),
	}
}

const frrBFDName = "FRR bfdd 8.4"
