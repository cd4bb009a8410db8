package disk

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in the kernel's struct seccomp_data (linux/seccomp.h).
const (
	offsetNumber = 0
	offsetArch   = 4
)

// architectures are those whose system calls the filter knows (linux/audit.h).
var architectures = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64,
	"arm64": unix.AUDIT_ARCH_AARCH64,
}

// filter lets every system call pass but fsync and fdatasync, which it reports.
func filter(arch uint32) []unix.SockFilter {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		same = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		give = unix.BPF_RET | unix.BPF_K
	)
	return []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: same, Jf: 3, K: arch}, // other numbers mean other calls: pass
		{Code: load, K: offsetNumber},
		{Code: same, Jt: 2, K: unix.SYS_FSYNC},
		{Code: same, Jt: 1, K: unix.SYS_FDATASYNC},
		{Code: give, K: unix.SECCOMP_RET_ALLOW},
		{Code: give, K: unix.SECCOMP_RET_USER_NOTIF},
	}
}

// install puts the filter on the calling thread for good and returns where the
// kernel reports. The thread must be locked, and never return to the scheduler.
func install() (*os.File, error) {
	arch, ok := architectures[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("watch a disk: the system calls of %s are not known; use amd64 or arm64", runtime.GOARCH)
	}
	program := filter(arch)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// Killable: a signal, such as those by which Go preempts, must not restart the
	// call and with it the wait.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return nil, fmt.Errorf("watch a disk: install seccomp filter: %w (needs root and Linux 5.19)", errno)
	}
	unix.CloseOnExec(int(fd))
	if err := unix.SetNonblock(int(fd), true); err != nil { // lets the runtime wait for it
		_ = unix.Close(int(fd))
		return nil, fmt.Errorf("watch a disk: %w", err)
	}
	return os.NewFile(fd, "seccomp"), nil
}
