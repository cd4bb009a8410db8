package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Program is the pid, as seen from outside, of what serves in the pod.
func (p *Pod) Program() (int, error) {
	var own unix.Stat_t
	if err := unix.Fstat(p.space.Fd(), &own); err != nil {
		return 0, fmt.Errorf("look at the network of pod %s: %w", p.spec.Name, err)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir+"/ns/net", &st) != nil || st.Ino != own.Ino || st.Dev != own.Dev {
			continue // another's, or it has just ended
		}
		if line, err := os.ReadFile(dir + "/cmdline"); err == nil && serves(line) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("find the program of pod %s: %w", p.spec.Name, errors.New("nothing serves in its network"))
}

// serves says whether a command line is that of a pod that serves: its sandbox has
// the same network.
func serves(cmdline []byte) bool {
	argv := bytes.Split(cmdline, []byte{0})
	return len(argv) > 1 && string(argv[0]) == podPath && string(argv[1]) == "serve"
}
