package imports

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// script is vrrp_script NAME { script, interval, timeout, rise, fall, weight }.
func (k *keepalived) script(s *statement) {
	h := &health{Name: plain(s.word(1)), Kind: "exec", Period: duration(time.Second), Rise: 1, Fall: 1}
	for _, d := range s.block {
		switch d.name() {
		case "script":
			h.Command = d.words[1:]
			if len(h.Command) == 1 {
				h.Command = fields(h.Command[0])
			}
		case "interval":
			h.Period = duration(k.seconds(d, 1))
		case "timeout":
			h.Timeout = duration(k.seconds(d, 1))
		case "rise":
			h.Rise = k.number(d, 1, 1<<20)
		case "fall":
			h.Fall = k.number(d, 1, 1<<20)
		case "weight":
			h.Weight = k.weight(d, 1)
		case "user":
			k.note(d.where(), "not carried over: checks run as the agent's user")
		case "init_fail":
			k.note(d.where(), "not carried over: a check counts as bad until it has been good")
		default:
			k.note(d.where(), "not carried over")
		}
	}
	if len(h.Command) == 0 {
		k.mistake(s.where(), "script is missing; name the program to run")
		return
	}
	k.fit(s.where(), h)
	k.simplify(h)
	k.checks["track_script "+s.word(1)] = h
}

// fit brings the times of a check within what is possible here.
func (c *collector) fit(where string, h *health) {
	if h.Period < duration(time.Millisecond) {
		c.note(where, "an interval of %s is not carried over: the shortest is 1ms", time.Duration(h.Period))
		h.Period = duration(time.Millisecond)
	}
	if h.Timeout > h.Period {
		c.note(where, "a timeout of %s is not carried over: a check is over before the next, %s later", time.Duration(h.Timeout), time.Duration(h.Period))
	}
	if h.Timeout == 0 || h.Timeout > h.Period {
		h.Timeout = h.Period
	}
}

// simplify recognizes a script that only looks for a process, which is asked of
// the kernel here, without a process of its own every time.
func (k *keepalived) simplify(h *health) {
	c := h.Command
	switch program := path.Base(c[0]); {
	case program == "killall" && len(c) == 3 && c[1] == "-0":
		h.Process = comm(c[2])
	case (program == "pidof" || program == "pgrep") && len(c) == 2 && !strings.HasPrefix(c[1], "-"):
		h.Process = comm(c[1])
	default:
		if slices.ContainsFunc(c, func(w string) bool { return strings.ContainsAny(w, "|&;<>$`*") }) {
			h.Command = []string{"/bin/sh", "-c", strings.Join(c, " ")}
		}
		return
	}
	h.Kind, h.Command, h.Timeout = "process", nil, 0
}

// comm is the name of a program as the kernel knows it: 15 bytes.
func comm(program string) string {
	name := path.Base(program)
	return name[:min(len(name), 15)]
}

// fields splits a command as a shell would, without its expansions.
func fields(text string) []string {
	var all []string
	var word strings.Builder
	var quote rune
	open := false
	for _, c := range text {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if open {
				all = append(all, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(c)
			open = true
		}
	}
	if open {
		all = append(all, word.String())
	}
	return all
}

func (k *keepalived) process(s *statement) {
	h := &health{Name: plain(s.word(1)), Kind: "process", Rise: 1, Fall: 1}
	for _, d := range s.block {
		switch d.name() {
		case "process":
			h.Process = comm(d.word(1))
			if len(d.words) > 2 {
				k.note(d.where(), "arguments are not carried over: any process of the name %s counts", h.Process)
			}
		case "weight":
			h.Weight = k.weight(d, 1)
		default:
			k.note(d.where(), "not carried over")
		}
	}
	if h.Process == "" {
		k.mistake(s.where(), "process is missing; name the program to look for")
		return
	}
	k.checks["track_process "+s.word(1)] = h
}

// file is vrrp_track_file NAME { file PATH, weight N }. Its content is a
// priority there, and its being there is what counts here.
func (k *keepalived) file(s *statement) {
	if s.block == nil { // the reference within an instance is not a definition
		return
	}
	k.note(s.where(), "not carried over: keepalived adds the number in a file to the priority; here a check of kind file asks whether it is there")
}

func (k *keepalived) weight(d *statement, word int) int {
	var n int
	if _, err := fmt.Sscanf(d.word(word), "%d", &n); err != nil || n < -253 || n > 253 {
		k.mistake(d.where(), "weight %q is out of range; write -253 to 253", d.word(word))
	}
	return n
}

// definitions are what defines the checks that instances name.
var definitions = map[string]string{"track_script": "vrrp_script", "track_process": "vrrp_track_process", "track_bfd": "bfd_instance"}

// track are lines of NAME [weight N [reverse]] in a block of an instance.
func (k *keepalived) track(d *statement, g *group) {
	for _, t := range d.block {
		h := &health{}
		switch d.name() {
		case "track_interface":
			*h = health{Name: plain(t.name()), Kind: "carrier", Interface: t.name()}
		case "track_script", "track_process", "track_bfd":
			defined := k.checks[d.name()+" "+t.name()]
			if defined == nil {
				k.mistake(t.where(), "is not defined; define it with %s %s { … }", definitions[d.name()], t.name())
				continue
			}
			*h = *defined
		default:
			k.note(t.where(), "%s is not carried over", d.name())
			continue
		}
		for w := 1; w < len(t.words); w++ {
			switch t.words[w] {
			case "weight":
				w++
				h.Weight = k.weight(t, w)
			default:
				k.note(t.where(), "%s is not carried over", t.words[w])
			}
		}
		h.Name = unique(h.Name, g)
		g.Health = append(g.Health, h)
	}
}

// unique keeps names of checks apart.
func unique(name string, g *group) string {
	for n, try := 1, name; ; try = fmt.Sprintf("%s-%d", name, n) {
		n++
		if !slices.ContainsFunc(g.Health, func(h *health) bool { return h.Name == try }) {
			return try
		}
	}
}

// states are those of the notify scripts, in our words.
var states = map[string][]string{
	"notify": nil, "notify_master": {"active"}, "notify_backup": {"backup"},
	"notify_fault": {"initialize"}, "notify_stop": {"initialize"},
}

func (k *keepalived) notify(d *statement, g *group) {
	on, ok := states[d.name()]
	if !ok || len(d.words) < 2 {
		k.note(d.where(), "not carried over")
		return
	}
	command := fields(d.word(1))
	if len(d.words) > 2 {
		k.note(d.where(), "the user %s is not carried over: hooks run as the agent's user", strings.Join(d.words[2:], " "))
	}
	if len(command) == 0 {
		k.mistake(d.where(), "the program is missing; name it")
		return
	}
	for _, h := range g.Hooks {
		if slices.Equal(h.Command, command) && slices.Equal(h.On, on) {
			return // fault and stop are one state here
		}
	}
	if d.name() == "notify" {
		k.note(d.where(), "the arguments INSTANCE, name, state and priority are not given: a hook has HOLDFAST_VIP_GROUP and HOLDFAST_VIP_STATE in its environment")
	}
	g.Hooks = append(g.Hooks, &hook{Command: command, On: on})
}

// group is vrrp_sync_group NAME { group { … } and what applies to all of it }.
func (k *keepalived) group(s *statement) {
	for _, d := range s.block {
		switch name := d.name(); {
		case name == "group":
			// finish, when the instances are known, as for the next ones.
		case strings.HasPrefix(name, "track_"), strings.HasPrefix(name, "notify"):
		case name == "global_tracking", name == "sync_group_tracking_weight":
			k.note(d.where(), "not carried over: each group has its own checks, and all of a sync name move together")
		default:
			k.note(d.where(), "not carried over")
		}
	}
}

// members are the names in the block group, in lines or in one.
func members(group *statement) []string {
	var all []string
	for _, m := range group.block {
		all = append(all, m.words...)
	}
	return all
}

// finish gives every member of a sync group its checks, and its hooks to the
// first one, so that they run once.
func (k *keepalived) finish(tree []*statement) {
	there := map[string]*group{}
	for _, g := range k.document.Groups {
		there[g.from] = g
	}
	for _, s := range tree {
		if s.name() != "vrrp_sync_group" {
			continue
		}
		if s.word(1) == "" {
			k.mistake(s.where(), "a name is missing; write vrrp_sync_group NAME { … }")
		}
		first := true
		for _, d := range s.block {
			if d.name() != "group" {
				continue
			}
			for _, name := range members(d) {
				g := there[name]
				if g == nil {
					k.mistake(d.where(), "there is no vrrp_instance %s in the file; write it, or take the name out", name)
					continue
				}
				k.share(s, g, first)
				first = false
			}
		}
	}
}

func (k *keepalived) share(s *statement, g *group, first bool) {
	for _, d := range s.block {
		switch {
		case strings.HasPrefix(d.name(), "track_"):
			k.track(d, g)
		case strings.HasPrefix(d.name(), "notify") && first:
			k.notify(d, g)
		}
	}
}
