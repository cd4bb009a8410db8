package remote

import (
	"maps"
	"testing"
	"time"
)

func TestElectionTimeoutsAreReadOffArguments(t *testing.T) {
	got := elections(`unit etcd.service
ETCD_ELECTION_TIMEOUT=3000
/usr/bin/etcd
--name=a
unit flag.service
ETCD_ELECTION_TIMEOUT=3000
etcd
--election-timeout
5000
unit equals.service
/opt/etcd
--election-timeout=2500
unit default.service
etcd
unit file.service
etcd
--config-file=/etc/etcd.yaml
unit bad.service
etcd
--election-timeout=x
unit other.service
kube-apiserver
--etcd-servers=https://10.0.0.1:2379
read`)
	want := map[string]time.Duration{
		"etcd.service": 3 * time.Second, "flag.service": 5 * time.Second, "equals.service": 2500 * time.Millisecond, "default.service": time.Second,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestElectionTimeoutsThatDifferAreUnknown(t *testing.T) {
	var timers Timers
	for _, d := range []time.Duration{1e9, 1e9, 2e9, 1e9} {
		timers.take(d)
	}
	if timers.Election != 0 || timers.Unknown == "" {
		t.Errorf("%+v", timers)
	}
}

func FuzzElections(f *testing.F) {
	f.Add("unit etcd.service\netcd\n--election-timeout\n5000\nread")
	f.Fuzz(func(t *testing.T, out string) {
		for unit, d := range elections(out) {
			if d <= 0 || d > 50*time.Second {
				t.Fatalf("%s: %v", unit, d)
			}
		}
	})
}
