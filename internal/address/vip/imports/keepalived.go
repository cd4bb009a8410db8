package imports

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Keepalived imports the VRRP part of a keepalived.conf.
func Keepalived(data []byte) (Result, error) {
	tree, err := parse(data)
	if err != nil {
		return Result{}, err
	}
	k := &keepalived{
		version: 2, checks: map[string]*health{}, sync: map[string]*statement{},
	}
	// Definitions first: an instance may stand before what it names.
	for _, s := range tree {
		k.define(s)
	}
	for _, s := range tree {
		k.top(s)
	}
	k.finish(tree)
	return k.result(&k.document, "keepalived.conf")
}

type keepalived struct {
	collector
	document document
	version  int
	delay    time.Duration // of the start
	// checks are those that instances may name, by kind and name.
	checks map[string]*health
	// sync are the groups, by the instance that is in one.
	sync map[string]*statement
}

// define takes up what instances refer to.
func (k *keepalived) define(s *statement) {
	switch s.name() {
	case "global_defs":
		k.global(s)
	case "vrrp_script":
		k.script(s)
	case "vrrp_track_process", "track_process":
		k.process(s)
	case "bfd_instance":
		k.bfd(s)
	case "vrrp_track_file", "track_file":
		k.file(s)
	case "vrrp_sync_group":
		for _, g := range s.block {
			if g.name() != "group" {
				continue
			}
			for _, m := range members(g) {
				k.sync[m] = s
			}
		}
	}
}

func (k *keepalived) global(s *statement) {
	for _, d := range s.block {
		switch name := d.name(); {
		case name == "vrrp_version":
			k.version = k.number(d, 2, 3)
		case name == "vrrp_startup_delay":
			k.delay = k.seconds(d, 1)
		case name == "router_id", strings.HasPrefix(name, "enable_script_security"), name == "max_auto_priority", name == "vrrp_skip_check_adv_addr":
			// Without effect on who holds what.
		case strings.HasPrefix(name, "vrrp_garp"), strings.HasPrefix(name, "vrrp_gna"), name == "vrrp_min_garp":
			k.note(d.where(), "not carried over: takeovers are announced at once, again at growing pauses, and whenever a rival is heard")
		case name == "script_user":
			k.note(d.where(), "not carried over: checks and hooks run as the agent's user")
		case strings.HasPrefix(name, "notification_email"), strings.HasPrefix(name, "smtp"):
			k.note(d.where(), "not carried over: no mail is sent; alert on the metrics, or use a hook")
		case name == "vrrp_strict":
			k.note(d.where(), "not carried over: packets to the addresses are accepted; set accept: false where they are not to be")
		default:
			k.note(d.where(), "not carried over")
		}
	}
}

func (k *keepalived) top(s *statement) {
	switch s.name() {
	case "vrrp_instance":
		k.instance(s)
	case "vrrp_sync_group":
		k.group(s)
	case "virtual_server", "virtual_server_group":
		k.note(s.where(), "not carried over: to balance, run `holdfast balance` beside it")
	case "global_defs", "bfd_instance", "vrrp_script", "vrrp_track_process", "track_process", "vrrp_track_file", "track_file":
	default:
		k.note(s.where(), "not carried over")
	}
}

func (k *keepalived) instance(s *statement) {
	if s.block == nil || s.word(1) == "" {
		k.mistake(s.where(), "a name and a block are missing; write vrrp_instance NAME { … }")
		return
	}
	yes := true
	g := &group{
		from: s.word(1), Name: k.named(s.word(1)), Announce: []string{"arp"},
		VRRP: &vrrp{Version: k.version, Priority: 100, Interval: duration(time.Second), Preempt: true, StartDelay: duration(k.delay), Accept: &yes},
	}
	if sync := k.sync[s.word(1)]; sync != nil {
		g.VRRP.Sync = plain(sync.word(1))
	}
	i := &instance{keepalived: k, statement: s, group: g}
	for _, d := range s.block {
		i.statementOf(d)
	}
	i.finish()
	k.document.Groups = append(k.document.Groups, g)
}

// named is the name of a group for that of an instance; two that differ in what
// is not carried over get numbers.
func (k *keepalived) named(text string) string {
	name := plain(text)
	for n := 2; slices.ContainsFunc(k.document.Groups, func(g *group) bool { return g.Name == name }); n++ {
		suffix := "-" + strconv.Itoa(n)
		name = plain(text)
		name = strings.TrimRight(name[:min(len(name), longestName-len(suffix))], ".-") + suffix
	}
	return name
}

// longestName of a group, which may stand in the name of a Kubernetes object.
const longestName = 63

// plain makes a name of small letters, digits, dots and dashes.
func plain(text string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, text)
	name = strings.Trim(name[:min(len(name), longestName)], ".-")
	if name == "" {
		return "group"
	}
	return name
}

// instance is one vrrp_instance on its way to a group.
type instance struct {
	*keepalived
	statement *statement
	group     *group
	versioned bool // by the instance itself
	nopreempt *statement
}

func (i *instance) statementOf(d *statement) {
	v := i.group.VRRP
	switch d.name() {
	case "interface":
		i.group.Interface = d.word(1)
	case "virtual_router_id":
		v.VRID = i.number(d, 1, 255)
	case "priority":
		v.Priority = i.number(d, 1, 255)
		if v.Priority == 255 {
			v.Priority = 254
			i.note(d.where(), "255 is for the owner of the address, which does not exist here; made 254")
		}
	case "advert_int":
		v.Interval = duration(i.seconds(d, 1))
	case "version":
		v.Version, i.versioned = i.number(d, 2, 3), true
	case "nopreempt":
		v.Preempt, i.nopreempt = false, d
	case "preempt":
		v.Preempt = true
	case "preempt_delay":
		v.PreemptDelay = duration(i.seconds(d, 1))
	case "accept":
	case "no_accept", "strict_mode":
		no := false
		v.Accept = &no
	case "use_vmac":
		v.VirtualMAC = true
		if d.word(1) != "" {
			i.note(d.where(), "the name %s is not carried over", d.word(1))
		}
	case "virtual_ipaddress", "virtual_ipaddress_excluded":
		i.addresses(d)
	case "unicast_peer":
		i.peers(d)
	case "state":
		i.state(d)
	default:
		i.rest(d)
	}
}

// rest are checks, hooks, and what has no equal.
func (i *instance) rest(d *statement) {
	name := d.name()
	switch {
	case strings.HasPrefix(name, "track_"):
		i.track(d, i.group)
	case strings.HasPrefix(name, "notify"):
		i.notify(d, i.group)
	case name == "authentication":
		i.note(d.where(), "not carried over: adverts are sent without, since the password stands in every one of them; remove it from the other routers")
	case strings.HasPrefix(name, "garp_"), strings.HasPrefix(name, "gna_"), name == "higher_prio_send_advert", name == "lower_prio_no_advert":
		i.note(d.where(), "not carried over: takeovers are announced at once, again at growing pauses, and whenever a rival is heard")
	case name == "unicast_src_ip", name == "mcast_src_ip":
		i.note(d.where(), "not carried over: adverts come from the first address of the interface")
	case name == "debug", name == "dont_track_primary", name == "skip_check_adv_addr", name == "promote_secondaries":
	case name == "smtp_alert":
		i.note(d.where(), "not carried over: no mail is sent; alert on the metrics, or use a hook")
	case name == "virtual_routes", name == "virtual_rules":
		i.note(d.where(), "not carried over: routes and rules are not moved; use a hook")
	case name == "lvs_sync_daemon_interface":
		i.note(d.where(), "not carried over: there is no LVS here")
	default:
		i.note(d.where(), "not carried over")
	}
}

func (i *instance) state(d *statement) {
	switch d.word(1) {
	case "BACKUP":
	case "MASTER":
		i.note(d.where(), "MASTER is not carried over: every router listens first; the priority decides")
	default:
		i.mistake(d.where(), "%q is not known; write MASTER or BACKUP", d.word(1))
	}
}

// addresses are lines of ADDRESS[/PREFIX] [dev NAME] [more].
func (i *instance) addresses(d *statement) {
	for _, a := range d.block {
		text, _, _ := strings.Cut(a.name(), "/")
		address, err := netip.ParseAddr(text)
		if err != nil {
			i.mistake(a.where(), "is not an address; write it as numbers")
			continue
		}
		i.group.Addresses = append(i.group.Addresses, address.String())
		for w := 1; w < len(a.words); w += 2 {
			switch key, value := a.words[w], a.word(w+1); key {
			case "dev":
				if i.group.Interface == "" {
					i.group.Interface = value
				} else if value != i.group.Interface && !i.has(value) {
					i.note(a.where(), "dev %s is not carried over: addresses of a group are on its interface; make a group of its own", value)
				}
			case "brd", "label", "scope":
			default:
				i.note(a.where(), "%s is not carried over", key)
			}
		}
	}
	if d.name() == "virtual_ipaddress_excluded" && len(d.block) > 0 {
		i.note(d.where(), "the addresses become those of the group like the others, and stand in its adverts")
	}
}

// has says whether the instance names its interface somewhere, after all.
func (i *instance) has(iface string) bool {
	for _, d := range i.statement.block {
		if d.name() == "interface" {
			return d.word(1) == iface
		}
	}
	return false
}

func (i *instance) peers(d *statement) {
	for _, p := range d.block {
		address, err := netip.ParseAddr(p.name())
		if err != nil {
			i.mistake(p.where(), "is not an address; write it as numbers")
			continue
		}
		i.group.VRRP.Peers = append(i.group.VRRP.Peers, address.String())
		if len(p.words) > 1 {
			i.note(p.where(), "%s is not carried over", strings.Join(p.words[1:], " "))
		}
	}
}

// finish looks at the instance as a whole.
func (i *instance) finish() {
	g, v := i.group, i.group.VRRP
	if v.VRID == 0 {
		i.mistake(i.statement.where(), "virtual_router_id is missing; it is on the wire, and 51 in most files")
	}
	if len(g.Addresses) == 0 {
		i.mistake(i.statement.where(), "virtual_ipaddress is missing or empty; there is nothing to hold")
	}
	for _, a := range g.Addresses {
		if strings.Contains(a, ":") && v.Version == 2 {
			if i.versioned {
				i.note(i.statement.where(), "version 2 cannot carry %s; made 3", a)
			}
			v.Version = 3 // as keepalived does
		}
	}
	if i.nopreempt != nil {
		for _, h := range g.Health {
			if h.Weight != 0 {
				i.note(i.nopreempt.where(), "keepalived would not move an address because of weight %d of %s; here it moves, unless vrrp.stay is true", h.Weight, h.Name)
				break
			}
		}
	}
	if *v.Accept {
		v.Accept = nil
	}
	i.interval()
}

// interval is brought to what the version carries.
func (i *instance) interval() {
	v := i.group.VRRP
	unit, most := 10*time.Millisecond, 40950*time.Millisecond
	if v.Version == 2 {
		unit, most = time.Second, 255*time.Second
	}
	was := time.Duration(v.Interval)
	if is := max(unit, min(most, was.Round(unit))); is != was {
		i.note(i.statement.where(), "advert_int: version %d carries multiples of %s up to %s; %s was made %s, and all routers of the address must have the same", v.Version, unit, most, was, is)
		v.Interval = duration(is)
	}
}

// number is the first argument, within bounds.
func (k *keepalived) number(d *statement, low, high int) int {
	n, err := strconv.Atoi(d.word(1))
	if err != nil || n < low || n > high {
		k.mistake(d.where(), "%q is out of range; write %d to %d", d.word(1), low, high)
		return low
	}
	return n
}

// seconds is an argument in seconds, as keepalived has all times.
func (k *keepalived) seconds(d *statement, word int) time.Duration {
	f, err := strconv.ParseFloat(d.word(word), 64)
	if err != nil || !(f >= 0 && f <= 1e6) {
		k.mistake(d.where(), "%q is not a time in seconds; write a number", d.word(word))
		return time.Second
	}
	return time.Duration(f*1e6+0.5) * time.Microsecond
}
