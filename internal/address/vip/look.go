package vip

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/health"
)

// look is a health.Prober that looks at this machine: a process, a file, an
// interface. It costs no connection and answers at once.
type look struct {
	kind, what string
	found      string // directory of the process found last
}

func newLook(h *HealthSettings) *look {
	return &look{kind: h.Kind, what: map[string]string{kindProcess: h.Process, kindFile: h.Path, kindCarrier: h.Interface}[h.Kind]}
}

// Probe implements health.Prober.
func (l *look) Probe(context.Context, bool) health.Result {
	good, reason := false, ""
	switch l.kind {
	case kindFile:
		_, err := os.Stat(l.what)
		good, reason = err == nil, fmt.Sprintf("%s is not there", l.what)
	case kindCarrier:
		good, reason = carrier(l.what)
	case kindProcess:
		good, reason = l.runs("/proc"), fmt.Sprintf("no process %s", l.what)
	}
	if good {
		return health.Result{Grade: health.Ready, Fresh: true}
	}
	return health.Result{Grade: health.NotReady, Reason: reason, Fresh: true}
}

// Lost implements health.Prober.
func (l *look) Lost() <-chan struct{} { return nil }

// Close implements health.Prober.
func (l *look) Close() {}

// carrier asks the kernel about an interface.
func carrier(name string) (bool, string) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return false, fmt.Sprintf("no interface %s", name)
	}
	const both = net.FlagUp | net.FlagRunning
	return iface.Flags&both == both, fmt.Sprintf("interface %s is down or has no carrier", name)
}

// runs looks for the process below dir. It looks at the one found last first,
// for going through all of them costs milliseconds.
func (l *look) runs(dir string) bool {
	if l.found != "" && isProcess(l.found, l.what) {
		return true
	}
	l.found = ""
	all, err := filepath.Glob(filepath.Join(dir, "[0-9]*"))
	if err != nil {
		return false
	}
	for _, p := range all {
		if isProcess(p, l.what) {
			l.found = p
			return true
		}
	}
	return false
}

// isProcess says that the process of a directory has the name. A zombie runs no
// more.
func isProcess(dir, name string) bool {
	comm, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil || strings.TrimSuffix(string(comm), "\n") != name {
		return false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return false
	}
	// "PID (name) S …": the name may hold anything.
	i := bytes.LastIndexByte(stat, ')')
	return i >= 0 && len(stat) > i+2 && stat[i+2] != 'Z' && stat[i+2] != 'X'
}
