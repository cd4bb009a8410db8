package remote

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// deadManUnit is the transient timer that undoes on hosts with systemd.
const deadManUnit = "holdfast-drill-undo"

// looking is the script that changes nothing and prints a line "problem: …" for
// all that forbids a drill here.
func looking(h Host, ops []Operation) string {
	var b strings.Builder
	head(&b, h)
	b.WriteString(`p() { echo "problem: $1"; }
[ "$(id -u)" = 0 ] || p "the user is not root; log in as root, or set sudo: true"
[ -e "$dir" ] && p "$dir exists, so a drill is in force or was left behind; type: holdfast drill undo"
[ -d "$(dirname "$dir")" ] || p "the directory that should hold $dir is missing; set dir"
`)
	tools := []string{"flock", "sync", "setsid"}
	if slices.ContainsFunc(ops, Operation.tabled) {
		tools = append(tools, "nft")
		fmt.Fprintf(&b, "nft list tables 2>/dev/null | grep -q ' %s' && p \"an nft table %s* exists that is in no journal here; look whose it is and delete it\"\n", tablePrefix, tablePrefix)
	}
	for _, op := range ops {
		switch {
		case op.Slow != nil:
			tools = append(tools, op.Slow.tools()...)
			op.Slow.looking(&b)
		case op.Cut == nil:
			fmt.Fprintf(&b, "systemctl is-active --quiet %s || p \"%[1]s is not active, so there is nothing to %s\"\n", op.Unit, op.Verb)
		}
	}
	slices.Sort(tools)
	tools = slices.Compact(tools)
	fmt.Fprintf(&b, "for t in %s; do command -v $t >/dev/null || p \"the program $t is missing; install it\"; done\n", strings.Join(tools, " "))
	b.WriteString("[ -n \"$HOLDFAST_SSH\" ] || p \"SSH_CONNECTION is not set, so the controller could not be spared\"\n")
	b.WriteString("echo looked\n")
	return b.String()
}

// staging writes and syncs the journal, then arms the dead man. It ends with the
// word armed. Nothing of the host is changed yet.
func staging(h Host, p *Plan) string {
	ops := p.of(h.Name)
	var b strings.Builder
	head(&b, h)
	b.WriteString("set -e\numask 077\nmkdir \"$dir\" || { echo \"refused: $dir exists\"; exit 3; }\ntrap '[ $? = 0 ] || rm -rf \"$dir\"' EXIT\n")
	b.WriteString("full() { echo \"the journal cannot be written to $dir; make room there, or set dir to a file system that has some\"; exit 4; }\n")
	fmt.Fprintf(&b, "cat >\"$dir/undo.new\" <<'HOLDFAST' || full\n%sHOLDFAST\ncksum <\"$dir/undo.new\" >\"$dir/undo.sum\" || full\nmv \"$dir/undo.new\" \"$dir/undo.sh\"\n", undoing(h, ops))
	b.WriteString(`set -- $HOLDFAST_SSH
case $1 in *:*) family=ip6 ;; *) family=ip ;; esac
from=$1 port=$4
`)
	for _, op := range ops {
		if op.Slow != nil && op.Slow.queued() {
			b.WriteString(op.Slow.devices())
			fmt.Fprintf(&b, "[ -z \"$bad\" ]\necho \"$devs\" >\"$dir/%d.devs\"\n", op.ID)
		}
		if op.tabled() {
			fmt.Fprintf(&b, "sed \"s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/\" >\"$dir/%d.nft\" <<'HOLDFAST' || full\n%sHOLDFAST\nnft -c -f \"$dir/%[1]d.nft\"\n", op.ID, op.ruleset())
		}
	}
	b.WriteString("sync\n")
	b.WriteString(arming(seconds(p)))
	b.WriteString("echo armed\n")
	return b.String()
}

// seconds rounds up: a dead man must never come before the heal.
func seconds(p *Plan) int { return int(math.Ceil(p.DeadMan.Seconds())) }

// arming starts the timer: systemd's where it runs, else a shell that outlives
// the session. A shell is told from another process with its number by its line.
func arming(after int) string {
	return fmt.Sprintf(`if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
	systemd-run --quiet --collect --unit=%s --on-active=%ds --timer-property=AccuracySec=100ms /bin/sh "$dir/undo.sh" deadman
else
	setsid sh -c 'echo $$ >"$1/deadman.new"; mv "$1/deadman.new" "$1/deadman.pid"; sleep %[2]d; exec sh "$1/undo.sh" deadman' sh "$dir" </dev/null >/dev/null 2>&1 9>&- &
	n=0; while [ ! -e "$dir/deadman.pid" ]; do n=$((n+1)); [ $n -lt 200 ] || { echo "the dead man did not start"; exit 4; }; sleep 0.05; done
fi
`, deadManUnit, after)
}

// undoing is undo.sh: it takes back, last first, what the marks say was begun.
// It may run twice at once or be killed anywhere; the directory goes last.
func undoing(h Host, ops []Operation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "PATH=$PATH:/usr/sbin:/sbin\ndir=%s\n[ -d \"$dir\" ] || { echo undone; exit 0; }\nexec 9<\"$dir\"\nflock 9\n[ -e \"$dir/undo.sh\" ] || { echo undone; exit 0; }\nbad=0\n", h.Dir)
	for _, op := range slices.Backward(ops) {
		b.WriteString(op.undo())
	}
	fmt.Fprintf(&b, `if [ $bad = 1 ]; then echo "undo is not complete; $dir is kept"; exit 5; fi
if [ "$1" != deadman ]; then
	if [ -e "$dir/deadman.pid" ]; then
		pid=$(cat "$dir/deadman.pid")
		tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$dir" && kill -- "-$pid"
	elif [ -d /run/systemd/system ]; then
		systemctl stop %s.timer 2>/dev/null
	fi
fi
rm -rf "$dir"
echo undone
`, deadManUnit)
	return b.String()
}

// undo takes one operation back, if it was begun. Its mark goes after it.
func (op Operation) undo() string {
	var try string
	switch {
	case op.Cut != nil:
		try = untable(op.ID)
	case op.Slow != nil:
		try = op.Slow.undo(op.ID)
	case op.Verb == "pause":
		try = "systemctl kill --signal=CONT " + op.Unit
	default:
		try = fmt.Sprintf("{ systemctl reset-failed %s 2>/dev/null; systemctl start --no-block %[1]s; }", op.Unit)
	}
	return fmt.Sprintf("if [ -e \"$dir/did-%d\" ]; then { %s; } && rm \"$dir/did-%[1]d\" || bad=1; fi\n", op.ID, try)
}

// untable deletes the table of an operation where there is one.
func untable(id int) string {
	return fmt.Sprintf("! nft list table inet %s%d >/dev/null 2>&1 || nft delete table inet %[1]s%[2]d", tablePrefix, id)
}

// tabled says whether the operation has an nft table.
func (op Operation) tabled() bool { return op.Cut != nil || op.Slow != nil }

// ruleset is the operation's nft table.
func (op Operation) ruleset() string {
	if op.Slow != nil {
		return op.Slow.ruleset(op.ID)
	}
	return op.Cut.ruleset(op.ID)
}

// do is an operation: its mark, synced, then itself, then the look whether it is so.
func (op Operation) do() string {
	mark := fmt.Sprintf(": >\"$dir/did-%d\"\nsync \"$dir/did-%[1]d\" \"$dir\" 2>/dev/null || sync\n", op.ID)
	switch {
	case op.Cut != nil:
		return mark + fmt.Sprintf("nft -f \"$dir/%d.nft\"\nnft list table inet %s%[1]d >/dev/null\n", op.ID, tablePrefix)
	case op.Slow != nil:
		return mark + op.Slow.do(op.ID) + fmt.Sprintf("nft list table inet %s%d >/dev/null\n", tablePrefix, op.ID)
	case op.Verb == "kill":
		// The stop keeps Restart= from undoing the kill at once.
		return mark + fmt.Sprintf("systemctl kill --signal=KILL %s\nsystemctl stop %[1]s\n", op.Unit) + still(op.Unit)
	case op.Verb == "pause":
		return mark + fmt.Sprintf("systemctl kill --signal=STOP %s\n", op.Unit)
	default:
		return mark + fmt.Sprintf("systemctl stop %s\n", op.Unit) + still(op.Unit)
	}
}

// still fails when a unit lives that was to end; "! command" would not, under set -e.
func still(unit string) string {
	return fmt.Sprintf("if systemctl is-active --quiet %s; then echo \"%[1]s is still active\"; exit 6; fi\n", unit)
}

// injecting makes the operations of a step on a host. After the dead man came it
// refuses, for there is no journal any more.
func injecting(h Host, ops []Operation) string {
	var b strings.Builder
	head(&b, h)
	b.WriteString(locked)
	b.WriteString("set -e\n")
	for _, op := range ops {
		b.WriteString(op.do())
	}
	b.WriteString("echo injected\n")
	return b.String()
}

const locked = "[ -d \"$dir\" ] && exec 9<\"$dir\" && flock 9 && [ -e \"$dir/undo.sh\" ] || { echo \"refused: $dir is gone; the dead man has undone\"; exit 3; }\n"

// healing takes the operations of one step back and keeps the journal.
func healing(h Host, ops []Operation) string {
	var b strings.Builder
	head(&b, h)
	b.WriteString(locked + "bad=0\n")
	for _, op := range slices.Backward(ops) {
		b.WriteString(op.undo())
	}
	b.WriteString("[ $bad = 0 ] && echo healed\n")
	return b.String()
}

// counting lists the tables of a step with their counters.
func counting(h Host, ops []Operation) string {
	var b strings.Builder
	head(&b, h)
	for _, op := range ops {
		if op.tabled() {
			fmt.Fprintf(&b, "nft -t list table inet %s%d\n", tablePrefix, op.ID)
		}
	}
	b.WriteString("echo counted\n")
	return b.String()
}

// undone runs the journal's own undo, whoever wrote it.
func undone(h Host) string {
	var b strings.Builder
	head(&b, h)
	b.WriteString(damaged)
	b.WriteString("if [ -e \"$dir/undo.sh\" ]; then sh \"$dir/undo.sh\"; elif [ -e \"$dir\" ]; then rm -f \"$dir/undo.new\" \"$dir/undo.sum\"; rmdir \"$dir\" && echo undone; else echo nothing; fi\n")
	return b.String()
}

// damaged keeps a journal that is not as it was written from being run. What carries
// our name goes all the same; of units only a person can tell.
const damaged = `if [ -e "$dir/undo.sh" ] && [ "$(cksum <"$dir/undo.sh")" != "$(cat "$dir/undo.sum" 2>/dev/null)" ]; then
	for t in $(nft list tables 2>/dev/null | sed -n 's/^table inet \(` + tablePrefix + `[0-9]*\)$/\1/p'); do nft delete table inet "$t"; done
	for d in $(tc qdisc show 2>/dev/null | sed -n 's/^qdisc htb ` + slowHandle + `: dev \([^ ]*\) root.*/\1/p'); do tc qdisc del dev "$d" root; done
	echo "$dir/undo.sh is not as it was written and was not run; the nft tables and queueing disciplines of drills are removed; start the units of the inventory that do not run, continue those that are paused, then delete $dir"
	exit 6
fi
`

func head(b *strings.Builder, h Host) {
	fmt.Fprintf(b, "PATH=$PATH:/usr/sbin:/sbin\ndir=%s\n", h.Dir)
}
