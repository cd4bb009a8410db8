package etcd

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var unwell = rule.Rule{
	ID: "HF-ETCD-005", Group: rule.Etcd, Severity: rule.Error,
	Title: "A member of etcd is unwell already: the next fault takes the quorum",
	Needs: []fact.Kind{fact.Etcd},
	Why: "A cluster of three that lost one member answers as before, so that nobody notices. The next reboot stops all writes. An alarm " +
		"stops them at once (NOSPACE) or says that members differ (CORRUPT).",
	Remedy: "mend the member before any other work: etcdctl endpoint health --cluster; etcdctl alarm list",
	Drill:  "witness-loss",
	Check:  checkHealth,
}

func checkHealth(f *fact.Facts) ([]rule.Finding, error) {
	voters := 0
	for _, m := range f.Etcd.Items {
		if !m.Object.Learner {
			voters++
		}
	}
	var all []rule.Finding
	for _, m := range f.Etcd.Items {
		if !m.Object.Healthy && m.Object.Error != "" {
			all = append(all, rule.Finding{
				At: m.At, Key: m.Object.Name + "/health", What: fmt.Sprintf("member %s does not answer: %s", m.Object.Name, m.Object.Error),
				Effect: rule.Unending(fmt.Sprintf("losing one more of %d members", voters), "etcd may take no writes, and the API none"),
				Remedy: "etcdctl endpoint health --cluster; crictl logs $(crictl ps -a --name etcd -q | head -n 1)   # on " + m.Object.Name,
			})
		}
		for _, alarm := range m.Object.Alarms {
			all = append(all, rule.Finding{
				At: m.At, Key: m.Object.Name + "/" + alarm, What: fmt.Sprintf("member %s has the alarm %s", m.Object.Name, alarm),
				Effect: rule.Unending("as it is", alarmed(alarm)),
				Remedy: "etcdctl alarm list; etcdctl compact $(etcdctl endpoint status -w json | jq '.[0].Status.header.revision'); etcdctl defrag --cluster; etcdctl alarm disarm",
			})
		}
	}
	return all, nil
}

func alarmed(alarm string) string {
	if alarm == "CORRUPT" {
		return "a member has other data than the rest, and answers by them"
	}
	return "etcd takes no writes, and the API none"
}

// fsyncBound is what etcd's documentation asks of a disk for 99 of 100 writes
// (etcd.io, FAQ, "What does the etcd warning apply entries took too long mean").
const fsyncBound = 10 * time.Millisecond

var slowDisk = rule.Rule{
	ID: "HF-ETCD-006", Group: rule.Etcd, Severity: rule.Warning,
	Title: "The disk of an etcd member is too slow",
	Needs: []fact.Kind{fact.Etcd},
	Why: "Every write waits for the disks of a quorum. A leader whose disk stalls for an election timeout loses its role; leases are not " +
		"renewed meanwhile, controllers restart, and an address held by a lease moves.",
	Remedy: "give etcd a disk of its own, and look at wal_fsync_duration of all members",
	Drill:  "slow-disk",
	Check:  checkDisk,
}

func checkDisk(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	measured := 0
	for _, m := range f.Etcd.Items {
		if m.Object.FsyncP99 == 0 {
			continue
		}
		measured++
		if m.Object.FsyncP99 <= fsyncBound {
			continue
		}
		all = append(all, rule.Finding{
			At: m.At, Key: m.Object.Name, What: fmt.Sprintf("a write to the disk of %s takes %s at the 99th percentile; %s is the bound", m.Object.Name, m.Object.FsyncP99, fsyncBound),
			Effect: rule.Lasts("a stall of this disk for an election timeout", "etcd has no leader, and takes no writes,", scenario.Leaderless(scenario.DefaultElection, 0)),
			Remedy: "fio --rw=write --ioengine=sync --fdatasync=1 --directory=/var/lib/etcd --size=22m --bs=2300 --name=etcd   # on " + m.Object.Name + "; then move it to a disk of its own",
		})
	}
	if measured == 0 {
		return nil, fact.Lacking("no member told how long its disk takes")
	}
	return all, nil
}

// defaultQuota is --quota-backend-bytes where it is not set.
const defaultQuota = 2 << 30

var nearQuota = rule.Rule{
	ID: "HF-ETCD-012", Group: rule.Etcd, Severity: rule.Error,
	Title: "etcd's database has nearly reached its quota",
	Needs: []fact.Kind{fact.Etcd}, OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "At the quota etcd raises the alarm NOSPACE on all members and takes no write until a person has made room and disarmed it. More " +
		"members do not help: all have the same data.",
	Remedy: "find what fills it, compact and defragment, then raise --quota-backend-bytes on all members",
	Drill:  "vip-etcd-stalls",
	Check:  checkQuota,
}

func checkQuota(f *fact.Facts) ([]rule.Finding, error) {
	members := own(f)
	if len(members) == 0 {
		return nil, errNoEtcd
	}
	quota := int64(defaultQuota)
	if text, ok := members[0].Flag("quota-backend-bytes"); ok {
		if n, err := fmt.Sscan(text, &quota); n != 1 || err != nil {
			return nil, fact.Lacking("--quota-backend-bytes=%s is no number", text)
		}
	}
	var all []rule.Finding
	sized := 0
	for _, m := range f.Etcd.Items {
		if m.Object.DBBytes == 0 || quota <= 0 {
			continue
		}
		sized++
		if m.Object.DBBytes < quota/5*4 {
			continue
		}
		all = append(all, rule.Finding{
			At: m.At, Key: m.Object.Name, What: fmt.Sprintf("the database of %s has %d MiB of %d", m.Object.Name, m.Object.DBBytes>>20, quota>>20),
			Effect: rule.Unending("growing to the quota", "etcd takes no writes, and the API none"),
			Remedy: "etcdctl compact $(etcdctl endpoint status -w json | jq '.[0].Status.header.revision'); etcdctl defrag --cluster   # one member at a time where clients are sensitive",
		})
	}
	if sized == 0 {
		return nil, fact.Lacking("no member told the size of its database")
	}
	return all, nil
}

// patched are the first patches without reads that may be stale after a change of
// the leader (etcd#21375) and with authentication of MoveLeader (CVE-2026-33413).
var patched = map[string]int{"3.5": 28, "3.6": 9}

var oldPatch = rule.Rule{
	ID: "HF-ETCD-010", Group: rule.Etcd, Severity: rule.Warning,
	Title: "This etcd may answer a linearizable read with an old value",
	OneOf: []fact.Kind{fact.Etcd, fact.Pods, fact.Files},
	Why: "Before 3.5.28 and 3.6.9 a read that meets a change of the leader may be stale (etcd#21375), and MoveLeader wants no rights " +
		"(CVE-2026-33413). Whatever moves the leader, a reboot or an agent, makes the first more frequent.",
	Remedy: "upgrade etcd to 3.5.28, 3.6.9 or later, one member at a time",
	Drill:  "partial-split",
	Check:  checkPatch,
}

func checkPatch(f *fact.Facts) ([]rule.Finding, error) {
	type versioned struct {
		who, version string
		at           fact.Location
	}
	var members []versioned
	for _, m := range f.Etcd.Items {
		members = append(members, versioned{m.Object.Name, m.Object.Version, m.At})
	}
	if len(members) == 0 {
		for _, c := range own(f) {
			_, tag := fact.SplitImage(c.Container.Image)
			members = append(members, versioned{c.Node, tag, c.At.Field("spec", "containers", fmt.Sprint(c.Index), "image")})
		}
	}
	if len(members) == 0 {
		return nil, errNoEtcd
	}
	var all []rule.Finding
	var lacking error
	for _, m := range members {
		var major, minor, patch int
		if n, _ := fmt.Sscanf(strings.TrimPrefix(m.version, "v"), "%d.%d.%d", &major, &minor, &patch); n < 3 {
			lacking = fact.Lacking("the version of member %s is %q", m.who, m.version)
			continue
		}
		first, known := patched[fmt.Sprintf("%d.%d", major, minor)]
		if known && patch >= first || major > 3 || major == 3 && minor > 6 {
			continue
		}
		all = append(all, rule.Finding{
			At: m.at, Key: m.who, What: fmt.Sprintf("member %s is of version %s", m.who, m.version),
			Effect: rule.Lasts("a change of etcd's leader", "reads may be stale", scenario.Leaderless(scenario.DefaultElection, 0)),
		})
	}
	return all, lacking
}
