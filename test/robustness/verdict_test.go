package robustness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// verdict is what the judge says; see judge/verdict.go.
type verdict struct {
	Broken string
	Why    string
	Counts struct {
		Answered, Failed, Writes, Deletes, Transactions, Reads, Leases, Revokes, Events int
	}
	Lost int
}

func (v verdict) String() string {
	return fmt.Sprintf("%d requests answered, %d not; %d acknowledged writes, %d of them lost; %d deletes, %d transactions, %d reads, %d leases, %d revoked, %d watch events",
		v.Counts.Answered, v.Counts.Failed, v.Counts.Writes, v.Lost, v.Counts.Deletes, v.Counts.Transactions, v.Counts.Reads, v.Counts.Leases, v.Counts.Revokes, v.Counts.Events)
}

// record is a run as etcd's tests save one: what clients were told, and the
// directories of stopped members.
type record struct {
	dir     string
	reports []report.ClientReport
	logs    []string
}

// logs are the directories whose logs together hold all that was ever
// written: a member that rejoined has the end only.
func logs(sites ...*site) (dirs []string) {
	for _, s := range sites {
		dirs = append(dirs, append([]string{s.data}, s.aside...)...)
	}
	return dirs
}

// save writes it where the judge reads it; the directories are linked, since
// each of their logs has 64 MB or more.
func (r record) save(t *testing.T) string {
	t.Helper()
	to := filepath.Join(r.dir, "report")
	saved, err := report.NewTestReport(zap.NewNop(), to, nil, &report.TrafficDetail{})
	if err != nil {
		t.Fatal(err)
	}
	saved.SetClientReports(r.reports)
	if err := saved.SaveEtcdData(); err != nil {
		t.Fatalf("save the run: %v", err)
	}
	for _, d := range r.logs {
		if err := os.Symlink(filepath.Join("..", filepath.Base(d)), filepath.Join(to, "server-"+filepath.Base(d))); err != nil {
			t.Fatalf("save the run: %v", err)
		}
	}
	return to
}

// judge returns the verdict over a run, which has to have done so many writes.
func (r record) judge(t *testing.T, writes int) verdict {
	t.Helper()
	saved := r.save(t)
	began := time.Now()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), judge, "--writes", fmt.Sprint(writes), saved)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var v verdict
	if bad := json.Unmarshal(out, &v); bad != nil {
		t.Fatalf("judge: %v: %s", err, errs.String())
	}
	t.Logf("%v; judged in %.1f s", v, time.Since(began).Seconds())
	return v
}

// accept wants a run that is legal.
func (r record) accept(t *testing.T, writes int) {
	t.Helper()
	if v := r.judge(t, writes); v.Broken != "" {
		t.Errorf("%s: %s", v.Broken, v.Why)
	}
}

// sameKeys compares what both members have at the newest revision.
func sameKeys(t *testing.T, a, b *site) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// The read makes sure that the member has applied all of it.
	revision := a.reaches(t, 0, 10*time.Second)
	b.reaches(t, revision, 10*time.Second)
	var hash [2]uint32
	for i, s := range []*site{a, b} {
		got, err := s.dial(t).HashKV(ctx, s.clientURL(), revision)
		if err != nil {
			t.Errorf("hash keys of %s: %v", s.name, err)
			return
		}
		hash[i] = got.Hash
	}
	if hash[0] != hash[1] {
		t.Errorf("the members' keys differ at revision %d: hash %08x and %08x", revision, hash[0], hash[1])
	}
}

// workspace is a directory that outlives a test that failed.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-robustness-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("histories, data and logs are in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}
