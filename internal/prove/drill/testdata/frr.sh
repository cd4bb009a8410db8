mkdir -p frr-a2 && cd frr-a2 || exit 1
ip address replace 203.0.113.10/32 dev lo || exit 1
cat >bgpd.conf <<'END'
router bgp 65010
 bgp router-id 10.77.1.12
 no bgp default ipv4-unicast
 no bgp network import-check
 timers bgp 10 30
 neighbor 10.77.1.1 remote-as 65001
 address-family ipv4 unicast
  neighbor 10.77.1.1 activate
  neighbor 10.77.1.1 route-map none in
  neighbor 10.77.1.1 route-map taken out
 exit-address-family
 address-family ipv6 unicast
  neighbor 10.77.1.1 activate
  neighbor 10.77.1.1 route-map none in
  neighbor 10.77.1.1 route-map taken out
 exit-address-family
!
route-map none deny 10
!
route-map taken permit 10
END
: >zebra.conf
trap 'wait; exit 0' TERM
setpriv --pdeathsig KILL --regid frrvty --clear-groups unshare --mount sh -c 'mount -t tmpfs tmpfs /var/tmp && exec "$0" "$@"' /usr/lib/frr/zebra -u root -g frrvty -f zebra.conf -z zserv.api -i zebra.pid --vty_socket . -P 0 --log stdout &
setpriv --pdeathsig KILL --regid frrvty --clear-groups unshare --mount sh -c 'mount -t tmpfs tmpfs /var/tmp && exec "$0" "$@"' /usr/lib/frr/bgpd -u root -g frrvty -f bgpd.conf -z zserv.api -i bgpd.pid --vty_socket . -P 0 --log stdout &
until vtysh --vty_socket . -d bgpd -c 'show version' >/dev/null 2>&1; do sleep 0.1; done
tell() { vtysh --vty_socket . -d bgpd -c 'configure terminal' -c 'router bgp 65010' -c 'address-family ipv4 unicast' -c "$1 203.0.113.10/32"; }
tell network
while :; do sleep 60 & wait $!; done
