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
	for _, c := range l.clusters {
		for _, m := range c.members {
			env["etcd"] = filepath.Base(m.argv[0])
		}
	}
	return env
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
