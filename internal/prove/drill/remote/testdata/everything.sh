# cp-a: look
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
p() { echo "problem: $1"; }
[ "$(id -u)" = 0 ] || p "the user is not root; log in as root, or set sudo: true"
[ -e "$dir" ] && p "$dir exists, so a drill is in force or was left behind; type: holdfast drill undo"
[ -d "$(dirname "$dir")" ] || p "the directory that should hold $dir is missing; set dir"
nft list tables 2>/dev/null | grep -q ' holdfast_drill_' && p "an nft table holdfast_drill_* exists that is in no journal here; look whose it is and delete it"
d=lo unshare -n sh -c 'tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: tbf rate 20mbit burst 15000 latency 50ms' >/dev/null 2>&1 || p "the kernel cannot slow packets down (tbf, htb): load sch_htb and sch_tbf, or leave mbit out"
devs=
for a in 10.0.2.10 fd00:2::11; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
for d in $devs; do
	q=$(tc qdisc show dev "$d" | awk '$2 != "clsact" && $2 != "ingress" && $3 != "0:" { print $2, $3; exit }')
	[ -z "$q" ] || p "device $d has a queueing discipline that somebody set ($q), which an undo could not bring back; remove it, or drill another host"
done
d=lo unshare -n sh -c 'tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: netem limit 20000 delay 100000us 10000us rate 5mbit' >/dev/null 2>&1 || p "the kernel cannot slow packets down (netem, htb): load sch_netem and sch_htb (their package may be linux-modules-extra or kernel-modules-extra), or give loss and mbit without delay and jitter"
devs=
for a in 10.0.2.10 fd00:2::11; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
for d in $devs; do
	q=$(tc qdisc show dev "$d" | awk '$2 != "clsact" && $2 != "ingress" && $3 != "0:" { print $2, $3; exit }')
	[ -z "$q" ] || p "device $d has a queueing discipline that somebody set ($q), which an undo could not bring back; remove it, or drill another host"
done
systemctl is-active --quiet etcd.service || p "etcd.service is not active, so there is nothing to pause"
for t in awk flock ip nft setsid sync tc unshare; do command -v $t >/dev/null || p "the program $t is missing; install it"; done
[ -n "$HOLDFAST_SSH" ] || p "SSH_CONNECTION is not set, so the controller could not be spared"
echo looked
# stage
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
set -e
umask 077
mkdir "$dir" || { echo "refused: $dir exists"; exit 3; }
trap '[ $? = 0 ] || rm -rf "$dir"' EXIT
full() { echo "the journal cannot be written to $dir; make room there, or set dir to a file system that has some"; exit 4; }
cat >"$dir/undo.new" <<'HOLDFAST' || full
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] || { echo undone; exit 0; }
exec 9<"$dir"
flock 9
[ -e "$dir/undo.sh" ] || { echo undone; exit 0; }
bad=0
if [ -e "$dir/did-20" ]; then { systemctl kill --signal=CONT etcd.service; } && rm "$dir/did-20" || bad=1; fi
if [ -e "$dir/did-15" ]; then { (for d in $(cat "$dir/15.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_15 >/dev/null 2>&1 || nft delete table inet holdfast_drill_15; }; } && rm "$dir/did-15" || bad=1; fi
if [ -e "$dir/did-12" ]; then { (for d in $(cat "$dir/12.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_12 >/dev/null 2>&1 || nft delete table inet holdfast_drill_12; }; } && rm "$dir/did-12" || bad=1; fi
if [ -e "$dir/did-10" ]; then { ! nft list table inet holdfast_drill_10 >/dev/null 2>&1 || nft delete table inet holdfast_drill_10; } && rm "$dir/did-10" || bad=1; fi
if [ -e "$dir/did-8" ]; then { ! nft list table inet holdfast_drill_8 >/dev/null 2>&1 || nft delete table inet holdfast_drill_8; } && rm "$dir/did-8" || bad=1; fi
if [ -e "$dir/did-6" ]; then { ! nft list table inet holdfast_drill_6 >/dev/null 2>&1 || nft delete table inet holdfast_drill_6; } && rm "$dir/did-6" || bad=1; fi
if [ -e "$dir/did-1" ]; then { ! nft list table inet holdfast_drill_1 >/dev/null 2>&1 || nft delete table inet holdfast_drill_1; } && rm "$dir/did-1" || bad=1; fi
if [ $bad = 1 ]; then echo "undo is not complete; $dir is kept"; exit 5; fi
if [ "$1" != deadman ]; then
	if [ -e "$dir/deadman.pid" ]; then
		pid=$(cat "$dir/deadman.pid")
		tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$dir" && kill -- "-$pid"
	elif [ -d /run/systemd/system ]; then
		systemctl stop holdfast-drill-undo.timer 2>/dev/null
	fi
fi
rm -rf "$dir"
echo undone
HOLDFAST
cksum <"$dir/undo.new" >"$dir/undo.sum" || full
mv "$dir/undo.new" "$dir/undo.sh"
set -- $HOLDFAST_SSH
case $1 in *:*) family=ip6 ;; *) family=ip ;; esac
from=$1 port=$4
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/1.nft" <<'HOLDFAST' || full
table inet holdfast_drill_1 {
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		iifname "lo" accept
		ip saddr 10.0.2.10 jump cut
		ip6 saddr fd00:2::11 jump cut
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.2.10 jump cut
		ip6 daddr fd00:2::11 jump cut
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip saddr 10.0.2.10 jump cut
		ip6 saddr fd00:2::11 jump cut
		ip daddr 10.0.2.10 jump cut
		ip6 daddr fd00:2::11 jump cut
	}
	chain cut {
		meta l4proto != tcp return
		tcp flags & (syn | ack) != syn return
		meta l4proto != tcp ct state != new return
		th dport { 2379, 2380 } meta l4proto tcp counter reject with tcp reset
		th dport { 2379, 2380 } counter drop
		th sport { 2379, 2380 } meta l4proto tcp counter reject with tcp reset
		th sport { 2379, 2380 } counter drop
	}
}
HOLDFAST
nft -c -f "$dir/1.nft"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/6.nft" <<'HOLDFAST' || full
table inet holdfast_drill_6 {
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		ip saddr 10.0.2.10 jump cut
		ip6 saddr fd00:2::11 jump cut
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip saddr 10.0.2.10 jump cut
		ip6 saddr fd00:2::11 jump cut
	}
	chain cut {
		counter reject with icmpx type admin-prohibited
	}
}
HOLDFAST
nft -c -f "$dir/6.nft"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/8.nft" <<'HOLDFAST' || full
table inet holdfast_drill_8 {
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		iifname "lo" accept
		ip saddr 10.0.3.10 jump cut
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.3.10 jump cut
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip saddr 10.0.3.10 jump cut
		ip daddr 10.0.3.10 jump cut
	}
	chain cut {
		meta l4proto != udp return
		udp dport != 4789 return
		counter drop
	}
}
HOLDFAST
nft -c -f "$dir/8.nft"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/10.nft" <<'HOLDFAST' || full
table inet holdfast_drill_10 {
	set young {
		typeof ip saddr . tcp sport . ip daddr . tcp dport
		flags dynamic
		size 1048576
	}
	set young6 {
		typeof ip6 saddr . tcp sport . ip6 daddr . tcp dport
		flags dynamic
		size 1048576
	}
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		iifname "lo" accept
		ip saddr 10.0.3.10 jump cut
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.3.10 jump cut
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip saddr 10.0.3.10 jump cut
		ip daddr 10.0.3.10 jump cut
	}
	chain cut {
		meta l4proto != tcp return
		tcp flags & (syn | ack) == syn add @young { ip saddr . tcp sport . ip daddr . tcp dport } return
		tcp flags & (syn | ack) == syn add @young6 { ip6 saddr . tcp sport . ip6 daddr . tcp dport } return
		ip saddr . tcp sport . ip daddr . tcp dport @young return
		ip daddr . tcp dport . ip saddr . tcp sport @young return
		ip6 saddr . tcp sport . ip6 daddr . tcp dport @young6 return
		ip6 daddr . tcp dport . ip6 saddr . tcp sport @young6 return
		counter drop
	}
}
HOLDFAST
nft -c -f "$dir/10.nft"
devs=
for a in 10.0.2.10 fd00:2::11; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
[ -z "$bad" ]
echo "$devs" >"$dir/12.devs"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/12.nft" <<'HOLDFAST' || full
table inet holdfast_drill_12 {
	chain leave {
		type filter hook postrouting priority 200; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.2.10 counter meta priority set 4f46:1
		ip6 daddr fd00:2::11 counter meta priority set 4f46:1
	}
	chain arrive {
		type filter hook prerouting priority -310; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		ip saddr 10.0.2.10 counter jump lose
		ip6 saddr fd00:2::11 counter jump lose
	}
	chain lose {
		numgen random mod 100000 < 2000 counter drop
	}
}
HOLDFAST
nft -c -f "$dir/12.nft"
devs=
for a in 10.0.2.10 fd00:2::11; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
[ -z "$bad" ]
echo "$devs" >"$dir/15.devs"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/15.nft" <<'HOLDFAST' || full
table inet holdfast_drill_15 {
	chain leave {
		type filter hook postrouting priority 200; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.2.10 counter meta priority set 4f46:1
		ip6 daddr fd00:2::11 counter meta priority set 4f46:1
	}
}
HOLDFAST
nft -c -f "$dir/15.nft"
sync
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
	systemd-run --quiet --collect --unit=holdfast-drill-undo --on-active=50s --timer-property=AccuracySec=100ms /bin/sh "$dir/undo.sh" deadman
else
	setsid sh -c 'echo $$ >"$1/deadman.new"; mv "$1/deadman.new" "$1/deadman.pid"; sleep 50; exec sh "$1/undo.sh" deadman' sh "$dir" </dev/null >/dev/null 2>&1 9>&- &
	n=0; while [ ! -e "$dir/deadman.pid" ]; do n=$((n+1)); [ $n -lt 200 ] || { echo "the dead man did not start"; exit 4; }; sleep 0.05; done
fi
echo armed
# inject new
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-1"
sync "$dir/did-1" "$dir" 2>/dev/null || sync
nft -f "$dir/1.nft"
nft list table inet holdfast_drill_1 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-1" ]; then { ! nft list table inet holdfast_drill_1 >/dev/null 2>&1 || nft delete table inet holdfast_drill_1; } && rm "$dir/did-1" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject site
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-6"
sync "$dir/did-6" "$dir" 2>/dev/null || sync
nft -f "$dir/6.nft"
nft list table inet holdfast_drill_6 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-6" ]; then { ! nft list table inet holdfast_drill_6 >/dev/null 2>&1 || nft delete table inet holdfast_drill_6; } && rm "$dir/did-6" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject overlay
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-8"
sync "$dir/did-8" "$dir" 2>/dev/null || sync
nft -f "$dir/8.nft"
nft list table inet holdfast_drill_8 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-8" ]; then { ! nft list table inet holdfast_drill_8 >/dev/null 2>&1 || nft delete table inet holdfast_drill_8; } && rm "$dir/did-8" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject old
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-10"
sync "$dir/did-10" "$dir" 2>/dev/null || sync
nft -f "$dir/10.nft"
nft list table inet holdfast_drill_10 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-10" ]; then { ! nft list table inet holdfast_drill_10 >/dev/null 2>&1 || nft delete table inet holdfast_drill_10; } && rm "$dir/did-10" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject lossy
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-12"
sync "$dir/did-12" "$dir" 2>/dev/null || sync
nft -f "$dir/12.nft"
for d in $(cat "$dir/12.devs"); do tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: tbf rate 20mbit burst 15000 latency 50ms || exit 7; done
nft list table inet holdfast_drill_12 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-12" ]; then { (for d in $(cat "$dir/12.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_12 >/dev/null 2>&1 || nft delete table inet holdfast_drill_12; }; } && rm "$dir/did-12" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject far
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-15"
sync "$dir/did-15" "$dir" 2>/dev/null || sync
nft -f "$dir/15.nft"
for d in $(cat "$dir/15.devs"); do tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: netem limit 20000 delay 100000us 10000us rate 5mbit || exit 7; done
nft list table inet holdfast_drill_15 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-15" ]; then { (for d in $(cat "$dir/15.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_15 >/dev/null 2>&1 || nft delete table inet holdfast_drill_15; }; } && rm "$dir/did-15" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject processes
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-20"
sync "$dir/did-20" "$dir" 2>/dev/null || sync
systemctl kill --signal=STOP etcd.service
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-20" ]; then { systemctl kill --signal=CONT etcd.service; } && rm "$dir/did-20" || bad=1; fi
[ $bad = 0 ] && echo healed
# cp-b: look
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
p() { echo "problem: $1"; }
[ "$(id -u)" = 0 ] || p "the user is not root; log in as root, or set sudo: true"
[ -e "$dir" ] && p "$dir exists, so a drill is in force or was left behind; type: holdfast drill undo"
[ -d "$(dirname "$dir")" ] || p "the directory that should hold $dir is missing; set dir"
nft list tables 2>/dev/null | grep -q ' holdfast_drill_' && p "an nft table holdfast_drill_* exists that is in no journal here; look whose it is and delete it"
d=lo unshare -n sh -c 'tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: tbf rate 20mbit burst 15000 latency 50ms' >/dev/null 2>&1 || p "the kernel cannot slow packets down (tbf, htb): load sch_htb and sch_tbf, or leave mbit out"
devs=
for a in 10.0.1.10 10.244.1.0/24; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
for d in $devs; do
	q=$(tc qdisc show dev "$d" | awk '$2 != "clsact" && $2 != "ingress" && $3 != "0:" { print $2, $3; exit }')
	[ -z "$q" ] || p "device $d has a queueing discipline that somebody set ($q), which an undo could not bring back; remove it, or drill another host"
done
d=lo unshare -n sh -c 'tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: netem limit 20000 delay 100000us 10000us rate 5mbit' >/dev/null 2>&1 || p "the kernel cannot slow packets down (netem, htb): load sch_netem and sch_htb (their package may be linux-modules-extra or kernel-modules-extra), or give loss and mbit without delay and jitter"
devs=
for a in 10.0.1.10 10.244.1.0/24; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
for d in $devs; do
	q=$(tc qdisc show dev "$d" | awk '$2 != "clsact" && $2 != "ingress" && $3 != "0:" { print $2, $3; exit }')
	[ -z "$q" ] || p "device $d has a queueing discipline that somebody set ($q), which an undo could not bring back; remove it, or drill another host"
done
systemctl is-active --quiet kube-apiserver.service || p "kube-apiserver.service is not active, so there is nothing to kill"
for t in awk flock ip nft setsid sync tc unshare; do command -v $t >/dev/null || p "the program $t is missing; install it"; done
[ -n "$HOLDFAST_SSH" ] || p "SSH_CONNECTION is not set, so the controller could not be spared"
echo looked
# stage
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
set -e
umask 077
mkdir "$dir" || { echo "refused: $dir exists"; exit 3; }
trap '[ $? = 0 ] || rm -rf "$dir"' EXIT
full() { echo "the journal cannot be written to $dir; make room there, or set dir to a file system that has some"; exit 4; }
cat >"$dir/undo.new" <<'HOLDFAST' || full
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] || { echo undone; exit 0; }
exec 9<"$dir"
flock 9
[ -e "$dir/undo.sh" ] || { echo undone; exit 0; }
bad=0
if [ -e "$dir/did-18" ]; then { { systemctl reset-failed kube-apiserver.service 2>/dev/null; systemctl start --no-block kube-apiserver.service; }; } && rm "$dir/did-18" || bad=1; fi
if [ -e "$dir/did-16" ]; then { (for d in $(cat "$dir/16.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_16 >/dev/null 2>&1 || nft delete table inet holdfast_drill_16; }; } && rm "$dir/did-16" || bad=1; fi
if [ -e "$dir/did-13" ]; then { (for d in $(cat "$dir/13.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_13 >/dev/null 2>&1 || nft delete table inet holdfast_drill_13; }; } && rm "$dir/did-13" || bad=1; fi
if [ -e "$dir/did-4" ]; then { ! nft list table inet holdfast_drill_4 >/dev/null 2>&1 || nft delete table inet holdfast_drill_4; } && rm "$dir/did-4" || bad=1; fi
if [ -e "$dir/did-2" ]; then { ! nft list table inet holdfast_drill_2 >/dev/null 2>&1 || nft delete table inet holdfast_drill_2; } && rm "$dir/did-2" || bad=1; fi
if [ $bad = 1 ]; then echo "undo is not complete; $dir is kept"; exit 5; fi
if [ "$1" != deadman ]; then
	if [ -e "$dir/deadman.pid" ]; then
		pid=$(cat "$dir/deadman.pid")
		tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$dir" && kill -- "-$pid"
	elif [ -d /run/systemd/system ]; then
		systemctl stop holdfast-drill-undo.timer 2>/dev/null
	fi
fi
rm -rf "$dir"
echo undone
HOLDFAST
cksum <"$dir/undo.new" >"$dir/undo.sum" || full
mv "$dir/undo.new" "$dir/undo.sh"
set -- $HOLDFAST_SSH
case $1 in *:*) family=ip6 ;; *) family=ip ;; esac
from=$1 port=$4
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/2.nft" <<'HOLDFAST' || full
table inet holdfast_drill_2 {
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		iifname "lo" accept
		ip saddr 10.0.1.10 jump cut
		ip saddr 10.244.1.0/24 jump cut
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip saddr 10.0.1.10 jump cut
		ip saddr 10.244.1.0/24 jump cut
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain cut {
		meta l4proto != tcp return
		tcp flags & (syn | ack) != syn return
		meta l4proto != tcp ct state != new return
		th dport { 2379, 2380 } meta l4proto tcp counter reject with tcp reset
		th dport { 2379, 2380 } counter drop
		th sport { 2379, 2380 } meta l4proto tcp counter reject with tcp reset
		th sport { 2379, 2380 } counter drop
	}
}
HOLDFAST
nft -c -f "$dir/2.nft"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/4.nft" <<'HOLDFAST' || full
table inet holdfast_drill_4 {
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		iifname "lo" accept
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.0.3.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.0.3.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain cut {
		counter reject with icmpx type admin-prohibited
	}
}
HOLDFAST
nft -c -f "$dir/4.nft"
devs=
for a in 10.0.1.10 10.244.1.0/24; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
[ -z "$bad" ]
echo "$devs" >"$dir/13.devs"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/13.nft" <<'HOLDFAST' || full
table inet holdfast_drill_13 {
	chain leave {
		type filter hook postrouting priority 200; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 counter meta priority set 4f46:1
		ip daddr 10.244.1.0/24 counter meta priority set 4f46:1
	}
	chain arrive {
		type filter hook prerouting priority -310; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		ip saddr 10.0.1.10 counter jump lose
		ip saddr 10.244.1.0/24 counter jump lose
	}
	chain lose {
		numgen random mod 100000 < 2000 counter drop
	}
}
HOLDFAST
nft -c -f "$dir/13.nft"
devs=
for a in 10.0.1.10 10.244.1.0/24; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
[ -z "$bad" ]
echo "$devs" >"$dir/16.devs"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/16.nft" <<'HOLDFAST' || full
table inet holdfast_drill_16 {
	chain leave {
		type filter hook postrouting priority 200; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 counter meta priority set 4f46:1
		ip daddr 10.244.1.0/24 counter meta priority set 4f46:1
	}
}
HOLDFAST
nft -c -f "$dir/16.nft"
sync
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
	systemd-run --quiet --collect --unit=holdfast-drill-undo --on-active=50s --timer-property=AccuracySec=100ms /bin/sh "$dir/undo.sh" deadman
else
	setsid sh -c 'echo $$ >"$1/deadman.new"; mv "$1/deadman.new" "$1/deadman.pid"; sleep 50; exec sh "$1/undo.sh" deadman' sh "$dir" </dev/null >/dev/null 2>&1 9>&- &
	n=0; while [ ! -e "$dir/deadman.pid" ]; do n=$((n+1)); [ $n -lt 200 ] || { echo "the dead man did not start"; exit 4; }; sleep 0.05; done
fi
echo armed
# inject new
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-2"
sync "$dir/did-2" "$dir" 2>/dev/null || sync
nft -f "$dir/2.nft"
nft list table inet holdfast_drill_2 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-2" ]; then { ! nft list table inet holdfast_drill_2 >/dev/null 2>&1 || nft delete table inet holdfast_drill_2; } && rm "$dir/did-2" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject site
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-4"
sync "$dir/did-4" "$dir" 2>/dev/null || sync
nft -f "$dir/4.nft"
nft list table inet holdfast_drill_4 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-4" ]; then { ! nft list table inet holdfast_drill_4 >/dev/null 2>&1 || nft delete table inet holdfast_drill_4; } && rm "$dir/did-4" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject lossy
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-13"
sync "$dir/did-13" "$dir" 2>/dev/null || sync
nft -f "$dir/13.nft"
for d in $(cat "$dir/13.devs"); do tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: tbf rate 20mbit burst 15000 latency 50ms || exit 7; done
nft list table inet holdfast_drill_13 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-13" ]; then { (for d in $(cat "$dir/13.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_13 >/dev/null 2>&1 || nft delete table inet holdfast_drill_13; }; } && rm "$dir/did-13" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject far
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-16"
sync "$dir/did-16" "$dir" 2>/dev/null || sync
nft -f "$dir/16.nft"
for d in $(cat "$dir/16.devs"); do tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: netem limit 20000 delay 100000us 10000us rate 5mbit || exit 7; done
nft list table inet holdfast_drill_16 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-16" ]; then { (for d in $(cat "$dir/16.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_16 >/dev/null 2>&1 || nft delete table inet holdfast_drill_16; }; } && rm "$dir/did-16" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject processes
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-18"
sync "$dir/did-18" "$dir" 2>/dev/null || sync
systemctl kill --signal=KILL kube-apiserver.service
systemctl stop kube-apiserver.service
if systemctl is-active --quiet kube-apiserver.service; then echo "kube-apiserver.service is still active"; exit 6; fi
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-18" ]; then { { systemctl reset-failed kube-apiserver.service 2>/dev/null; systemctl start --no-block kube-apiserver.service; }; } && rm "$dir/did-18" || bad=1; fi
[ $bad = 0 ] && echo healed
# w-b: look
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
p() { echo "problem: $1"; }
[ "$(id -u)" = 0 ] || p "the user is not root; log in as root, or set sudo: true"
[ -e "$dir" ] && p "$dir exists, so a drill is in force or was left behind; type: holdfast drill undo"
[ -d "$(dirname "$dir")" ] || p "the directory that should hold $dir is missing; set dir"
nft list tables 2>/dev/null | grep -q ' holdfast_drill_' && p "an nft table holdfast_drill_* exists that is in no journal here; look whose it is and delete it"
d=lo unshare -n sh -c 'tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: tbf rate 20mbit burst 15000 latency 50ms' >/dev/null 2>&1 || p "the kernel cannot slow packets down (tbf, htb): load sch_htb and sch_tbf, or leave mbit out"
devs=
for a in 10.0.1.10 10.244.1.0/24; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
for d in $devs; do
	q=$(tc qdisc show dev "$d" | awk '$2 != "clsact" && $2 != "ingress" && $3 != "0:" { print $2, $3; exit }')
	[ -z "$q" ] || p "device $d has a queueing discipline that somebody set ($q), which an undo could not bring back; remove it, or drill another host"
done
d=lo unshare -n sh -c 'tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: netem limit 20000 delay 100000us 10000us rate 5mbit' >/dev/null 2>&1 || p "the kernel cannot slow packets down (netem, htb): load sch_netem and sch_htb (their package may be linux-modules-extra or kernel-modules-extra), or give loss and mbit without delay and jitter"
devs=
for a in 10.0.1.10 10.244.1.0/24; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
for d in $devs; do
	q=$(tc qdisc show dev "$d" | awk '$2 != "clsact" && $2 != "ingress" && $3 != "0:" { print $2, $3; exit }')
	[ -z "$q" ] || p "device $d has a queueing discipline that somebody set ($q), which an undo could not bring back; remove it, or drill another host"
done
for t in awk flock ip nft setsid sync tc unshare; do command -v $t >/dev/null || p "the program $t is missing; install it"; done
[ -n "$HOLDFAST_SSH" ] || p "SSH_CONNECTION is not set, so the controller could not be spared"
echo looked
# stage
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
set -e
umask 077
mkdir "$dir" || { echo "refused: $dir exists"; exit 3; }
trap '[ $? = 0 ] || rm -rf "$dir"' EXIT
full() { echo "the journal cannot be written to $dir; make room there, or set dir to a file system that has some"; exit 4; }
cat >"$dir/undo.new" <<'HOLDFAST' || full
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] || { echo undone; exit 0; }
exec 9<"$dir"
flock 9
[ -e "$dir/undo.sh" ] || { echo undone; exit 0; }
bad=0
if [ -e "$dir/did-17" ]; then { (for d in $(cat "$dir/17.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_17 >/dev/null 2>&1 || nft delete table inet holdfast_drill_17; }; } && rm "$dir/did-17" || bad=1; fi
if [ -e "$dir/did-14" ]; then { (for d in $(cat "$dir/14.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_14 >/dev/null 2>&1 || nft delete table inet holdfast_drill_14; }; } && rm "$dir/did-14" || bad=1; fi
if [ -e "$dir/did-5" ]; then { ! nft list table inet holdfast_drill_5 >/dev/null 2>&1 || nft delete table inet holdfast_drill_5; } && rm "$dir/did-5" || bad=1; fi
if [ -e "$dir/did-3" ]; then { ! nft list table inet holdfast_drill_3 >/dev/null 2>&1 || nft delete table inet holdfast_drill_3; } && rm "$dir/did-3" || bad=1; fi
if [ $bad = 1 ]; then echo "undo is not complete; $dir is kept"; exit 5; fi
if [ "$1" != deadman ]; then
	if [ -e "$dir/deadman.pid" ]; then
		pid=$(cat "$dir/deadman.pid")
		tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$dir" && kill -- "-$pid"
	elif [ -d /run/systemd/system ]; then
		systemctl stop holdfast-drill-undo.timer 2>/dev/null
	fi
fi
rm -rf "$dir"
echo undone
HOLDFAST
cksum <"$dir/undo.new" >"$dir/undo.sum" || full
mv "$dir/undo.new" "$dir/undo.sh"
set -- $HOLDFAST_SSH
case $1 in *:*) family=ip6 ;; *) family=ip ;; esac
from=$1 port=$4
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/3.nft" <<'HOLDFAST' || full
table inet holdfast_drill_3 {
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		iifname "lo" accept
		ip saddr 10.0.1.10 jump cut
		ip saddr 10.244.1.0/24 jump cut
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip saddr 10.0.1.10 jump cut
		ip saddr 10.244.1.0/24 jump cut
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain cut {
		meta l4proto != tcp return
		tcp flags & (syn | ack) != syn return
		meta l4proto != tcp ct state != new return
		th dport { 2379, 2380 } meta l4proto tcp counter reject with tcp reset
		th dport { 2379, 2380 } counter drop
		th sport { 2379, 2380 } meta l4proto tcp counter reject with tcp reset
		th sport { 2379, 2380 } counter drop
	}
}
HOLDFAST
nft -c -f "$dir/3.nft"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/5.nft" <<'HOLDFAST' || full
table inet holdfast_drill_5 {
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		iifname "lo" accept
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.0.3.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.0.3.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain cut {
		counter reject with icmpx type admin-prohibited
	}
}
HOLDFAST
nft -c -f "$dir/5.nft"
devs=
for a in 10.0.1.10 10.244.1.0/24; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
[ -z "$bad" ]
echo "$devs" >"$dir/14.devs"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/14.nft" <<'HOLDFAST' || full
table inet holdfast_drill_14 {
	chain leave {
		type filter hook postrouting priority 200; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 counter meta priority set 4f46:1
		ip daddr 10.244.1.0/24 counter meta priority set 4f46:1
	}
	chain arrive {
		type filter hook prerouting priority -310; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		ip saddr 10.0.1.10 counter jump lose
		ip saddr 10.244.1.0/24 counter jump lose
	}
	chain lose {
		numgen random mod 100000 < 2000 counter drop
	}
}
HOLDFAST
nft -c -f "$dir/14.nft"
devs=
for a in 10.0.1.10 10.244.1.0/24; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
[ -z "$bad" ]
echo "$devs" >"$dir/17.devs"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/17.nft" <<'HOLDFAST' || full
table inet holdfast_drill_17 {
	chain leave {
		type filter hook postrouting priority 200; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 counter meta priority set 4f46:1
		ip daddr 10.244.1.0/24 counter meta priority set 4f46:1
	}
}
HOLDFAST
nft -c -f "$dir/17.nft"
sync
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
	systemd-run --quiet --collect --unit=holdfast-drill-undo --on-active=50s --timer-property=AccuracySec=100ms /bin/sh "$dir/undo.sh" deadman
else
	setsid sh -c 'echo $$ >"$1/deadman.new"; mv "$1/deadman.new" "$1/deadman.pid"; sleep 50; exec sh "$1/undo.sh" deadman' sh "$dir" </dev/null >/dev/null 2>&1 9>&- &
	n=0; while [ ! -e "$dir/deadman.pid" ]; do n=$((n+1)); [ $n -lt 200 ] || { echo "the dead man did not start"; exit 4; }; sleep 0.05; done
fi
echo armed
# inject new
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-3"
sync "$dir/did-3" "$dir" 2>/dev/null || sync
nft -f "$dir/3.nft"
nft list table inet holdfast_drill_3 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-3" ]; then { ! nft list table inet holdfast_drill_3 >/dev/null 2>&1 || nft delete table inet holdfast_drill_3; } && rm "$dir/did-3" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject site
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-5"
sync "$dir/did-5" "$dir" 2>/dev/null || sync
nft -f "$dir/5.nft"
nft list table inet holdfast_drill_5 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-5" ]; then { ! nft list table inet holdfast_drill_5 >/dev/null 2>&1 || nft delete table inet holdfast_drill_5; } && rm "$dir/did-5" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject lossy
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-14"
sync "$dir/did-14" "$dir" 2>/dev/null || sync
nft -f "$dir/14.nft"
for d in $(cat "$dir/14.devs"); do tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: tbf rate 20mbit burst 15000 latency 50ms || exit 7; done
nft list table inet holdfast_drill_14 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-14" ]; then { (for d in $(cat "$dir/14.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_14 >/dev/null 2>&1 || nft delete table inet holdfast_drill_14; }; } && rm "$dir/did-14" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject far
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-17"
sync "$dir/did-17" "$dir" 2>/dev/null || sync
nft -f "$dir/17.nft"
for d in $(cat "$dir/17.devs"); do tc qdisc add dev $d root handle 4f46: htb && tc class add dev $d parent 4f46: classid 4f46:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent 4f46:1 handle 4f47: netem limit 20000 delay 100000us 10000us rate 5mbit || exit 7; done
nft list table inet holdfast_drill_17 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-17" ]; then { (for d in $(cat "$dir/17.devs"); do ! tc qdisc show dev "$d" 2>/dev/null | grep -q "^qdisc htb 4f46: root" || tc qdisc del dev "$d" root || exit 1; done) && { ! nft list table inet holdfast_drill_17 >/dev/null 2>&1 || nft delete table inet holdfast_drill_17; }; } && rm "$dir/did-17" || bad=1; fi
[ $bad = 0 ] && echo healed
# cp-c: look
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
p() { echo "problem: $1"; }
[ "$(id -u)" = 0 ] || p "the user is not root; log in as root, or set sudo: true"
[ -e "$dir" ] && p "$dir exists, so a drill is in force or was left behind; type: holdfast drill undo"
[ -d "$(dirname "$dir")" ] || p "the directory that should hold $dir is missing; set dir"
nft list tables 2>/dev/null | grep -q ' holdfast_drill_' && p "an nft table holdfast_drill_* exists that is in no journal here; look whose it is and delete it"
systemctl is-active --quiet etcd.service || p "etcd.service is not active, so there is nothing to stop"
for t in flock nft setsid sync; do command -v $t >/dev/null || p "the program $t is missing; install it"; done
[ -n "$HOLDFAST_SSH" ] || p "SSH_CONNECTION is not set, so the controller could not be spared"
echo looked
# stage
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
set -e
umask 077
mkdir "$dir" || { echo "refused: $dir exists"; exit 3; }
trap '[ $? = 0 ] || rm -rf "$dir"' EXIT
full() { echo "the journal cannot be written to $dir; make room there, or set dir to a file system that has some"; exit 4; }
cat >"$dir/undo.new" <<'HOLDFAST' || full
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] || { echo undone; exit 0; }
exec 9<"$dir"
flock 9
[ -e "$dir/undo.sh" ] || { echo undone; exit 0; }
bad=0
if [ -e "$dir/did-19" ]; then { { systemctl reset-failed etcd.service 2>/dev/null; systemctl start --no-block etcd.service; }; } && rm "$dir/did-19" || bad=1; fi
if [ -e "$dir/did-11" ]; then { ! nft list table inet holdfast_drill_11 >/dev/null 2>&1 || nft delete table inet holdfast_drill_11; } && rm "$dir/did-11" || bad=1; fi
if [ -e "$dir/did-9" ]; then { ! nft list table inet holdfast_drill_9 >/dev/null 2>&1 || nft delete table inet holdfast_drill_9; } && rm "$dir/did-9" || bad=1; fi
if [ -e "$dir/did-7" ]; then { ! nft list table inet holdfast_drill_7 >/dev/null 2>&1 || nft delete table inet holdfast_drill_7; } && rm "$dir/did-7" || bad=1; fi
if [ $bad = 1 ]; then echo "undo is not complete; $dir is kept"; exit 5; fi
if [ "$1" != deadman ]; then
	if [ -e "$dir/deadman.pid" ]; then
		pid=$(cat "$dir/deadman.pid")
		tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$dir" && kill -- "-$pid"
	elif [ -d /run/systemd/system ]; then
		systemctl stop holdfast-drill-undo.timer 2>/dev/null
	fi
fi
rm -rf "$dir"
echo undone
HOLDFAST
cksum <"$dir/undo.new" >"$dir/undo.sum" || full
mv "$dir/undo.new" "$dir/undo.sh"
set -- $HOLDFAST_SSH
case $1 in *:*) family=ip6 ;; *) family=ip ;; esac
from=$1 port=$4
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/7.nft" <<'HOLDFAST' || full
table inet holdfast_drill_7 {
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		ip saddr 10.0.2.10 jump cut
		ip6 saddr fd00:2::11 jump cut
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip saddr 10.0.2.10 jump cut
		ip6 saddr fd00:2::11 jump cut
	}
	chain cut {
		counter reject with icmpx type admin-prohibited
	}
}
HOLDFAST
nft -c -f "$dir/7.nft"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/9.nft" <<'HOLDFAST' || full
table inet holdfast_drill_9 {
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		iifname "lo" accept
		ip saddr 10.0.1.10 jump cut
		ip saddr 10.244.1.0/24 jump cut
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip saddr 10.0.1.10 jump cut
		ip saddr 10.244.1.0/24 jump cut
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain cut {
		meta l4proto != udp return
		udp dport != 4789 return
		counter drop
	}
}
HOLDFAST
nft -c -f "$dir/9.nft"
sed "s/@FAMILY@/$family/; s/@CONTROLLER@/$from/; s/@PORT@/$port/" >"$dir/11.nft" <<'HOLDFAST' || full
table inet holdfast_drill_11 {
	set young {
		typeof ip saddr . tcp sport . ip daddr . tcp dport
		flags dynamic
		size 1048576
	}
	set young6 {
		typeof ip6 saddr . tcp sport . ip6 daddr . tcp dport
		flags dynamic
		size 1048576
	}
	chain input {
		type filter hook input priority -10; policy accept;
		@FAMILY@ saddr @CONTROLLER@ tcp dport @PORT@ accept
		iifname "lo" accept
		ip saddr 10.0.1.10 jump cut
		ip saddr 10.244.1.0/24 jump cut
	}
	chain output {
		type filter hook output priority -10; policy accept;
		@FAMILY@ daddr @CONTROLLER@ tcp sport @PORT@ accept
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain forward {
		type filter hook forward priority -10; policy accept;
		ip saddr 10.0.1.10 jump cut
		ip saddr 10.244.1.0/24 jump cut
		ip daddr 10.0.1.10 jump cut
		ip daddr 10.244.1.0/24 jump cut
	}
	chain cut {
		meta l4proto != tcp return
		tcp flags & (syn | ack) == syn add @young { ip saddr . tcp sport . ip daddr . tcp dport } return
		tcp flags & (syn | ack) == syn add @young6 { ip6 saddr . tcp sport . ip6 daddr . tcp dport } return
		ip saddr . tcp sport . ip daddr . tcp dport @young return
		ip daddr . tcp dport . ip saddr . tcp sport @young return
		ip6 saddr . tcp sport . ip6 daddr . tcp dport @young6 return
		ip6 daddr . tcp dport . ip6 saddr . tcp sport @young6 return
		counter drop
	}
}
HOLDFAST
nft -c -f "$dir/11.nft"
sync
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
	systemd-run --quiet --collect --unit=holdfast-drill-undo --on-active=50s --timer-property=AccuracySec=100ms /bin/sh "$dir/undo.sh" deadman
else
	setsid sh -c 'echo $$ >"$1/deadman.new"; mv "$1/deadman.new" "$1/deadman.pid"; sleep 50; exec sh "$1/undo.sh" deadman' sh "$dir" </dev/null >/dev/null 2>&1 9>&- &
	n=0; while [ ! -e "$dir/deadman.pid" ]; do n=$((n+1)); [ $n -lt 200 ] || { echo "the dead man did not start"; exit 4; }; sleep 0.05; done
fi
echo armed
# inject site
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-7"
sync "$dir/did-7" "$dir" 2>/dev/null || sync
nft -f "$dir/7.nft"
nft list table inet holdfast_drill_7 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-7" ]; then { ! nft list table inet holdfast_drill_7 >/dev/null 2>&1 || nft delete table inet holdfast_drill_7; } && rm "$dir/did-7" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject overlay
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-9"
sync "$dir/did-9" "$dir" 2>/dev/null || sync
nft -f "$dir/9.nft"
nft list table inet holdfast_drill_9 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-9" ]; then { ! nft list table inet holdfast_drill_9 >/dev/null 2>&1 || nft delete table inet holdfast_drill_9; } && rm "$dir/did-9" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject old
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-11"
sync "$dir/did-11" "$dir" 2>/dev/null || sync
nft -f "$dir/11.nft"
nft list table inet holdfast_drill_11 >/dev/null
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-11" ]; then { ! nft list table inet holdfast_drill_11 >/dev/null 2>&1 || nft delete table inet holdfast_drill_11; } && rm "$dir/did-11" || bad=1; fi
[ $bad = 0 ] && echo healed
# inject processes
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
set -e
: >"$dir/did-19"
sync "$dir/did-19" "$dir" 2>/dev/null || sync
systemctl stop etcd.service
if systemctl is-active --quiet etcd.service; then echo "etcd.service is still active"; exit 6; fi
echo injected
# heal
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
[ -d "$dir" ] && exec 9<"$dir" && flock 9 && [ -e "$dir/undo.sh" ] || { echo "refused: $dir is gone; the dead man has undone"; exit 3; }
bad=0
if [ -e "$dir/did-19" ]; then { { systemctl reset-failed etcd.service 2>/dev/null; systemctl start --no-block etcd.service; }; } && rm "$dir/did-19" || bad=1; fi
[ $bad = 0 ] && echo healed
