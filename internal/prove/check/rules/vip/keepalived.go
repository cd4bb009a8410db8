package vip

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// daemon is the keepalived of one machine, of all its files.
type daemon struct {
	node      string
	instances []instance
	scripts   map[string]script
	// user is script_user of global_defs. balances says that it directs LVS too, so
	// that its addresses need no check of a local server.
	user     string
	balances bool
}

// instance is one vrrp_instance.
type instance struct {
	name, vrid, state, source string
	interval                  time.Duration
	priority                  int
	addresses, peers, tracks  []string
	unicast, nopreempt        bool
	// watched says that something else than a script is tracked that tells of a
	// server: a process or a file.
	watched bool
	at      fact.Location
	block   *conf.Block
}

// script is one vrrp_script, with the text that is run where it is known.
type script struct {
	name, command, text, user string
	interval, timeout         time.Duration
	fall, weight              int
	known                     bool
	at                        fact.Location
	block                     *conf.Block
}

// Defaults of keepalived 2 (man keepalived.conf).
const (
	keepalivedPriority = 100
	keepalivedInterval = time.Second
)

// daemons reads keepalived.conf of every machine.
func daemons(f *fact.Facts) []daemon {
	byNode := map[string]*daemon{}
	var order []string
	for _, file := range append(f.FilesAt("/etc/keepalived/keepalived.conf"), f.FilesAt("/etc/keepalived/conf.d/*.conf")...) {
		d := byNode[file.Object.Node]
		if d == nil {
			d = &daemon{node: file.Object.Node, scripts: map[string]script{}}
			byNode[d.node], order = d, append(order, d.node)
		}
		d.read(f, file)
	}
	slices.Sort(order)
	var all []daemon
	for _, node := range order {
		all = append(all, *byNode[node])
	}
	return all
}

func (d *daemon) read(f *fact.Facts, file fact.Item[fact.File]) {
	for _, b := range conf.Keepalived(file.Object.Data).Blocks {
		switch b.Word(0) {
		case "global_defs":
			d.user = cmp.Or(b.First("script_user").Word(1), d.user)
		case "virtual_server", "virtual_server_group":
			d.balances = true
		case "vrrp_instance":
			d.instances = append(d.instances, instanceOf(file, b))
		case "vrrp_script":
			s := scriptOf(file, b)
			s.find(f, d.node)
			d.scripts[s.name] = s
		}
	}
}

func instanceOf(file fact.Item[fact.File], b *conf.Block) instance {
	i := instance{
		name: b.Word(1), vrid: b.First("virtual_router_id").Word(1), state: cmp.Or(b.First("state").Word(1), "BACKUP"),
		interval: seconds(b.First("advert_int").Word(1), keepalivedInterval), priority: number(b.First("priority").Word(1), keepalivedPriority),
		addresses: first(b, "virtual_ipaddress"), peers: first(b, "unicast_peer"), tracks: first(b, "track_script"),
		source: b.First("unicast_src_ip").Word(1), unicast: b.First("unicast_peer") != nil, nopreempt: b.First("nopreempt") != nil,
		watched: b.First("track_process") != nil || b.First("track_file") != nil,
		at:      file.At.LineIn(b.Line), block: b,
	}
	slices.Sort(i.addresses)
	return i
}

// first lists the first words inside a block, without the length of a prefix.
func first(b *conf.Block, name string) []string {
	var all []string
	if inside := b.First(name); inside != nil {
		for _, line := range inside.Blocks {
			word, _, _ := strings.Cut(line.Word(0), "/")
			all = append(all, word)
		}
	}
	return all
}

func scriptOf(file fact.Item[fact.File], b *conf.Block) script {
	s := script{
		name: b.Word(1), user: b.First("user").Word(1), at: file.At.LineIn(b.Line), block: b,
		interval: seconds(b.First("interval").Word(1), keepalivedInterval), timeout: seconds(b.First("timeout").Word(1), 0),
		fall: number(b.First("fall").Word(1), 1), weight: number(b.First("weight").Word(1), 0),
	}
	if line := b.First("script"); line != nil {
		s.command = strings.Join(line.Words[1:], " ")
	}
	return s
}

// find looks up what the script runs: a file of the machine, or the words
// themselves.
func (s *script) find(f *fact.Facts, node string) {
	s.text, s.known = s.command, true
	for _, word := range strings.Fields(s.command) {
		if !strings.HasPrefix(word, "/etc/keepalived/") {
			continue
		}
		file, known := f.FileOf(node, word)
		if known.State != fact.Present {
			s.known = false
			continue
		}
		s.text += "\n" + uncommented(string(file.Object.Data))
	}
}

func uncommented(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// waits is how long the script may run: keepalived takes the interval where no
// timeout is set (vrrp_scheduler.c).
func (s script) waits() time.Duration { return cmp.Or(s.timeout, s.interval) }

// tracked lists the scripts that decide about an instance.
func (d daemon) tracked(i instance) []script {
	var all []script
	for _, name := range i.tracks {
		if s, ok := d.scripts[name]; ok {
			all = append(all, s)
		}
	}
	return all
}

func seconds(text string, or time.Duration) time.Duration {
	if d, err := conf.Seconds(text); err == nil {
		return d
	}
	return or
}

func number(text string, or int) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return or
}

var errNoKeepalived = fact.NotApplicable("no keepalived.conf with a vrrp_instance")

// eachInstance calls judge for every instance; without one there is nothing to
// judge.
func eachInstance(f *fact.Facts, judge func(daemon, instance)) error {
	n := 0
	for _, d := range daemons(f) {
		for _, i := range d.instances {
			n++
			judge(d, i)
		}
	}
	if n == 0 {
		return errNoKeepalived
	}
	return nil
}
