package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// setting is a kernel setting of one interface.
type setting struct {
	name string // below net.ipv4.conf.INTERFACE
	// good says whether a value will do as it is.
	good func(int) bool
	want int
}

// announceOwn makes the kernel ask for its neighbours with an address of the
// interface as the sender, never with that of the packet at hand: the questions
// of a holder that was relieved would win its clients back.
var announceOwn = setting{"arp_announce", func(v int) bool { return v == 2 }, 2}

// SetARP makes the interface ask with its own addresses only. It returns what
// puts the former values back. It works in the network namespace of the
// calling thread, and so does what it returns.
func SetARP(iface string) (restore func() error, err error) {
	return apply(change{iface, announceOwn})
}

// change is a setting and the interface it is for.
type change struct {
	iface string
	setting
}

// apply writes what is not good already, and undoes all if one cannot be written.
func apply(changes ...change) (restore func() error, err error) {
	former := map[string]int{}
	restore = func() error {
		var all []error
		for path, v := range former {
			// The interface may be gone, and its settings with it.
			if err := write(path, v); !errors.Is(err, fs.ErrNotExist) {
				all = append(all, err)
			}
		}
		return errors.Join(all...)
	}
	for _, c := range changes {
		path := "/proc/sys/net/ipv4/conf/" + c.iface + "/" + c.name
		v, err := read(path)
		if err == nil && c.good(v) {
			continue
		}
		if err == nil {
			err = write(path, c.want)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("set net.ipv4.conf.%s.%s to %d: %w; if /proc/sys is read-only here, set it on the host", c.iface, c.name, c.want, err), restore())
		}
		former[path] = v
	}
	return restore, nil
}

func read(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func write(path string, v int) error { return os.WriteFile(path, []byte(strconv.Itoa(v)), 0) }
