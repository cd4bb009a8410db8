package leader

import (
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

func TestRoutesAvoidMembersThatCannotWrite(t *testing.T) {
	peers := []etcd.Peer{
		{ID: 1, ClientURLs: []string{"a"}}, {ID: 2, ClientURLs: []string{"b"}}, {ID: 3, ClientURLs: []string{"c"}},
	}
	links := func(a, c LinkState) map[MemberID]Link {
		return map[MemberID]Link{1: {State: a}, 3: {State: c}}
	}
	for name, tc := range map[string]struct {
		row  Row
		want []string
	}{
		"calm, leader elsewhere":     {Row{Member: 2, Reachable: true, Leader: 1, Links: links(Up, Up)}, []string{"b", "a", "c"}},
		"own member leads":           {Row{Member: 2, Reachable: true, Leader: 2, Links: links(Down, Up)}, []string{"b", "c", "a"}},
		"link to the leader is down": {Row{Member: 2, Reachable: true, Leader: 1, Links: links(Down, Up)}, []string{"c", "b", "a"}},
		"own raft has no leader":     {Row{Member: 2, Reachable: true, Leader: 0, Links: links(Down, Up)}, []string{"c", "b", "a"}},
		"own member is gone":         {Row{Member: 2, Links: links(Unknown, Up)}, []string{"c", "a", "b"}},
	} {
		if got := routes(tc.row, peers); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestFingerprintIgnoresWhatMovesAllTheTime(t *testing.T) {
	a := sampleRow()
	b := a.aged(5)
	b.Seq, b.Index, b.Applied, b.Fsync = 9, 99, 99, 1
	if fingerprint(a) != fingerprint(b) {
		t.Error("a row at rest would be written again and again")
	}
	for name, change := range map[string]func(*Row){
		"leader": func(r *Row) { r.Leader = 0 }, "reachable": func(r *Row) { r.Reachable = false },
		"term": func(r *Row) { r.Term++ }, "alarms": func(r *Row) { r.Alarms = nil },
		"link": func(r *Row) { r.Links[0xb] = Link{State: Up} }, "penalty": func(r *Row) { r.Penalty.Seq++ },
	} {
		b := a.aged(0)
		change(&b)
		if fingerprint(a) == fingerprint(b) {
			t.Errorf("a change of %s would wait for the interval", name)
		}
	}
}

func TestSupportedNamesTheVersionToUpgradeTo(t *testing.T) {
	for version, ok := range map[string]bool{
		"3.5.27": false, "3.5.28": true, "3.5.35": true, "3.6.8": false, "3.6.9": true, "3.6.16": true,
		"3.7.0": true, "3.7.3": true, "3.4.30": false, "4.0.0": true, "": false, "three": false,
	} {
		if err := supported(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}
