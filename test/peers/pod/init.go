package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// isolate makes the mount namespace that the process was started in that of a
// machine of its own, and says so on standard output. The programs of a node
// write to places fixed in their code; those become empty filesystems that go
// with the namespace.
//
//	-empty DIR        an empty tmpfs over DIR
//	-keep DIR         as it is outside, although below one of these
//	-fix FILE=TEXT    a file of this text over FILE: a setting of the whole
//	                  machine that a program of the node would change
func isolate(args []string) error {
	var empty, keep, fix list
	flags := flag.NewFlagSet("init", flag.ContinueOnError)
	flags.Var(&empty, "empty", "directory to cover with an empty tmpfs")
	flags.Var(&keep, "keep", "directory to keep below those")
	flags.Var(&fix, "fix", "file to cover with a text, as FILE=TEXT")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// Mounts made outside later on are seen, those made here are not seen there.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("take mounts over: %w", err)
	}
	if err := cover(empty, keep); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, f := range fix {
		if err := pin(f); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	return os.Stdout.Close()
}

// cover mounts the empty filesystems; what is to be kept is held by a
// descriptor meanwhile.
func cover(empty, keep []string) error {
	held := map[string]*os.File{}
	for _, dir := range keep {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("keep %s: %w", dir, err)
		}
		defer f.Close()
		held[dir] = f
	}
	for _, dir := range empty {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("cover %s: %w", dir, err)
		}
		for _, k := range keep {
			if !strings.HasPrefix(k, dir+"/") {
				continue
			}
			if err := os.MkdirAll(k, 0o755); err != nil {
				return fmt.Errorf("keep %s: %w", k, err)
			}
			if err := syscall.Mount(fmt.Sprintf("/proc/self/fd/%d", held[k].Fd()), k, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
				return fmt.Errorf("keep %s: %w", k, err)
			}
		}
	}
	return nil
}

// pin mounts a file of the given text over one of /proc/sys. A name that this
// kernel does not have is left out.
func pin(rule string) error {
	name, text, _ := strings.Cut(rule, "=")
	if _, err := os.Stat(name); err != nil {
		return nil
	}
	dir := "/run/fixed"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("fix %s: %w", name, err)
	}
	file := filepath.Join(dir, strings.ReplaceAll(strings.Trim(name, "/"), "/", "-"))
	if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
		return fmt.Errorf("fix %s: %w", name, err)
	}
	if err := syscall.Mount(file, name, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("fix %s: %w", name, err)
	}
	return nil
}
