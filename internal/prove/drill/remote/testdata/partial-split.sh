# cp-a: look
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
p() { echo "problem: $1"; }
[ "$(id -u)" = 0 ] || p "the user is not root; log in as root, or set sudo: true"
[ -e "$dir" ] && p "$dir exists, so a drill is in force or was left behind; type: holdfast drill undo"
[ -d "$(dirname "$dir")" ] || p "the directory that should hold $dir is missing; set dir"
nft list tables 2>/dev/null | grep -q ' holdfast_drill_' && p "an nft table holdfast_drill_* exists that is in no journal here; look whose it is and delete it"
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
		counter drop
	}
}
HOLDFAST
nft -c -f "$dir/1.nft"
sync
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
	systemd-run --quiet --collect --unit=holdfast-drill-undo --on-active=50s --timer-property=AccuracySec=100ms /bin/sh "$dir/undo.sh" deadman
else
	setsid sh -c 'echo $$ >"$1/deadman.new"; mv "$1/deadman.new" "$1/deadman.pid"; sleep 50; exec sh "$1/undo.sh" deadman' sh "$dir" </dev/null >/dev/null 2>&1 9>&- &
	n=0; while [ ! -e "$dir/deadman.pid" ]; do n=$((n+1)); [ $n -lt 200 ] || { echo "the dead man did not start"; exit 4; }; sleep 0.05; done
fi
echo armed
# inject a-b
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
# cp-b: look
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
p() { echo "problem: $1"; }
[ "$(id -u)" = 0 ] || p "the user is not root; log in as root, or set sudo: true"
[ -e "$dir" ] && p "$dir exists, so a drill is in force or was left behind; type: holdfast drill undo"
[ -d "$(dirname "$dir")" ] || p "the directory that should hold $dir is missing; set dir"
nft list tables 2>/dev/null | grep -q ' holdfast_drill_' && p "an nft table holdfast_drill_* exists that is in no journal here; look whose it is and delete it"
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
		counter drop
	}
}
HOLDFAST
nft -c -f "$dir/2.nft"
sync
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
	systemd-run --quiet --collect --unit=holdfast-drill-undo --on-active=50s --timer-property=AccuracySec=100ms /bin/sh "$dir/undo.sh" deadman
else
	setsid sh -c 'echo $$ >"$1/deadman.new"; mv "$1/deadman.new" "$1/deadman.pid"; sleep 50; exec sh "$1/undo.sh" deadman' sh "$dir" </dev/null >/dev/null 2>&1 9>&- &
	n=0; while [ ! -e "$dir/deadman.pid" ]; do n=$((n+1)); [ $n -lt 200 ] || { echo "the dead man did not start"; exit 4; }; sleep 0.05; done
fi
echo armed
# inject a-b
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
# w-b: look
PATH=$PATH:/usr/sbin:/sbin
dir=/var/lib/holdfast-drill
p() { echo "problem: $1"; }
[ "$(id -u)" = 0 ] || p "the user is not root; log in as root, or set sudo: true"
[ -e "$dir" ] && p "$dir exists, so a drill is in force or was left behind; type: holdfast drill undo"
[ -d "$(dirname "$dir")" ] || p "the directory that should hold $dir is missing; set dir"
nft list tables 2>/dev/null | grep -q ' holdfast_drill_' && p "an nft table holdfast_drill_* exists that is in no journal here; look whose it is and delete it"
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
		counter drop
	}
}
HOLDFAST
nft -c -f "$dir/3.nft"
sync
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
	systemd-run --quiet --collect --unit=holdfast-drill-undo --on-active=50s --timer-property=AccuracySec=100ms /bin/sh "$dir/undo.sh" deadman
else
	setsid sh -c 'echo $$ >"$1/deadman.new"; mv "$1/deadman.new" "$1/deadman.pid"; sleep 50; exec sh "$1/undo.sh" deadman' sh "$dir" </dev/null >/dev/null 2>&1 9>&- &
	n=0; while [ ! -e "$dir/deadman.pid" ]; do n=$((n+1)); [ $n -lt 200 ] || { echo "the dead man did not start"; exit 4; }; sleep 0.05; done
fi
echo armed
# inject a-b
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
