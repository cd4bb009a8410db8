package route

import (
	"fmt"
	"os"

	ns "github.com/vishvananda/netns"
)

// netns is the network namespace that a Table belongs to.
type netns struct{ file *os.File }

// here is that of the calling thread.
func here() (netns, error) {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return netns{}, fmt.Errorf("open network namespace: %w", err)
	}
	return netns{f}, nil
}

func (n netns) handle() *ns.NsHandle {
	h := ns.NsHandle(int(n.file.Fd()))
	return &h
}

func (n netns) Close() error { return n.file.Close() }
