package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"

	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// load reads a report. An error means that it cannot be read at all.
func load(dir string) (history, error) {
	reports, err := report.LoadClientReports(dir)
	if err != nil {
		return history{}, fmt.Errorf("load what clients recorded: %w", err)
	}
	dirs, err := filepath.Glob(filepath.Join(dir, "server-*"))
	if err != nil || len(dirs) == 0 {
		return history{}, fmt.Errorf("find the members' directories: %w", errors.Join(err, os.ErrNotExist))
	}
	readable, err := os.MkdirTemp("", "holdfast-judge-")
	if err != nil {
		return history{}, err
	}
	defer os.RemoveAll(readable)
	for i, d := range dirs {
		if dirs[i], err = withoutV2(d, filepath.Join(readable, filepath.Base(d))); err != nil {
			return history{}, fmt.Errorf("read the log in %s: %w", d, err)
		}
	}
	h := history{reports: reports}
	// Logs that contradict one another are a finding, not a failure to read.
	h.persisted, h.damage = report.PersistedRequests(zap.NewNop(), dirs)
	h.reports = append(h.reports, unrecorded(reports, h.persisted)...)
	return h, nil
}

// withoutV2 returns a directory whose log etcd's report can read: dir itself, or a copy
// of its entries in which those of the old store are empty. etcd 3.5 writes a few of them, such as each
// member's name, and the messages of 3.7 do not know them any more.
func withoutV2(dir, copied string) (string, error) {
	state, entries, err := report.ReadWAL(zap.NewNop(), dir)
	if err != nil {
		return "", err
	}
	found := false
	for _, e := range entries {
		if e.GetType() == raftpb.EntryNormal && isV2(e.Data) {
			e.Data, found = nil, true
		}
	}
	if !found {
		return dir, nil
	}
	if err := os.MkdirAll(copied, 0o700); err != nil {
		return "", err
	}
	w, err := wal.Create(zap.NewNop(), datadir.ToWALDir(copied), nil)
	if err != nil {
		return "", err
	}
	return copied, errors.Join(w.Save(state, entries), w.Close())
}

// isV2 says whether an entry is a request to the old store: its second field is a method.
func isV2(data []byte) bool {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false
		}
		if field == 2 && kind == protowire.BytesType {
			method, m := protowire.ConsumeString(data[n:])
			return m > 0 && slices.Contains([]string{"PUT", "POST", "DELETE", "GET", "QGET", "SYNC"}, method)
		}
		m := protowire.ConsumeFieldValue(field, kind, data[n:])
		if m < 0 {
			return false
		}
		data = data[n+m:]
	}
	return false
}
