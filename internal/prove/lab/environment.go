package lab

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Environment says on what the lab runs, for reports.
func (l *Lab) Environment() map[string]string {
	env := map[string]string{
		"kernel": kernel(),
		"links":  l.method(),
		"preset": l.spec.Preset,
		"data":   "disk",
		"etcd":   "none",
	}
	if strings.HasPrefix(l.data, "/dev/shm/") {
		env["data"] = "memory"
	}
	if cc, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control"); err == nil {
		env["tcp"] = strings.TrimSpace(string(cc))
	}
	if len(l.apiservers) > 0 {
		env["kubernetes"] = filepath.Base(l.apiservers[0].argv[0])
	}
	if len(l.clusters) > 0 {
		env["etcd"] = l.etcdVersion()
	}
	return env
}

// etcdVersion is what the members said, or, before they could, the name of
// their program.
func (l *Lab) etcdVersion() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.version != "" {
		return l.version
	}
	return filepath.Base(l.clusters[0].members[0].argv[0])
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
