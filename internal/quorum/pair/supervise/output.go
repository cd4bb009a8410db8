package supervise

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLog is how large etcd.log may be at a start before it becomes etcd.log.1.
const maxLog = 64 << 20

// output is where a child writes.
type output struct {
	stdout, stderr *os.File
	where          string
	opened         *os.File
}

// outputs gives a child the agent's own files where they outlive the agent, and
// the log at path in the place of the others: a Go program dies of the first
// line that it writes to a pipe whose reader is gone.
func outputs(stdout, stderr *os.File, path string) (output, error) {
	o := output{stdout: stdout, stderr: stderr, where: "as the agent's"}
	if lasting(stdout) && lasting(stderr) {
		return o, nil
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return o, fmt.Errorf("put away etcd's log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return o, fmt.Errorf("open etcd's log: %w", err)
	}
	o.opened, o.where = f, path
	if !lasting(stdout) {
		o.stdout = f
	}
	if !lasting(stderr) {
		o.stderr = f
	}
	return o, nil
}

func (o output) close() {
	if o.opened != nil {
		_ = o.opened.Close()
	}
}

// lasting says whether writes to f go on without the agent: to a file, a
// terminal or the journal; and whatever it is, where the agent is the first
// process of a container, which ends with it.
func lasting(f *os.File) bool {
	if f == nil || os.Getpid() == 1 {
		return true
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFCHR:
		return true
	case unix.S_IFSOCK:
		return journal(st, os.Getenv("JOURNAL_STREAM"))
	}
	return false
}

// journal says whether the socket is the one to the journal: systemd.exec(5),
// $JOURNAL_STREAM, has its device and inode as decimal numbers.
func journal(st unix.Stat_t, stream string) bool {
	return strings.TrimSpace(stream) == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
