// Command leaderelection holds an IPv4 address while client-go's leader election
// says that it leads: what address holders do that rest on a Lease of the API
// which the address leads to.
//
// It stands for them in measurements, and is kind to them: the election is
// client-go's own with ReleaseOnCancel, the address is added when it is won and
// removed when OnStoppedLeading says so, what an earlier run left is removed at
// the start, and who has stopped leading contends anew without a restart. As with
// them, one ticker announces the address, a request and a reply in turn; nothing
// is announced when the election is won.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type settings struct {
	kubeconfig, lease, identity, iface, address string
	duration, renew, retry, announce            time.Duration
}

func main() {
	log.SetFlags(log.Lmicroseconds)
	var s settings
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig")
	flag.StringVar(&s.lease, "lease", "address", "Lease in kube-system")
	flag.StringVar(&s.identity, "identity", "", "name of this contender")
	flag.StringVar(&s.iface, "interface", "eth0", "where the address is")
	flag.StringVar(&s.address, "address", "", "IPv4 address")
	flag.DurationVar(&s.duration, "duration", 15*time.Second, "LeaseDuration")
	flag.DurationVar(&s.renew, "renew", 10*time.Second, "RenewDeadline")
	flag.DurationVar(&s.retry, "retry", 2*time.Second, "RetryPeriod")
	flag.DurationVar(&s.announce, "announce", 3*time.Second, "time between announcements")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "leaderelection:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	h, err := newHolder(s)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	go h.announce(ctx, s.announce)
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: s.lease},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: s.identity},
	}
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true,
			LeaseDuration: s.duration, RenewDeadline: s.renew, RetryPeriod: s.retry,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { h.set(true) },
				OnStoppedLeading: func() { h.set(false) },
			},
		})
	}
	return nil
}

// holder is the address on the interface.
type holder struct {
	link    netlink.Link
	address netip.Addr
	socket  int
	held    atomic.Bool
}

func newHolder(s settings) (*holder, error) {
	address, err := netip.ParseAddr(s.address)
	if err != nil || !address.Is4() {
		return nil, fmt.Errorf("address %q is no IPv4 address", s.address)
	}
	link, err := netlink.LinkByName(s.iface)
	if err != nil {
		return nil, fmt.Errorf("find interface: %w", err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	h := &holder{link: link, address: address, socket: fd}
	h.set(false)
	return h, nil
}

func (h *holder) set(on bool) {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: h.address.AsSlice(), Mask: net.CIDRMask(32, 32)}}
	change := netlink.AddrDel
	if on {
		change = netlink.AddrReplace
	}
	err := change(h.link, a)
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		log.Printf("address: %v", err)
	}
	h.held.Store(on)
	log.Printf("holds the address: %t", on)
}

func (h *holder) announce(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for op := byte(1); ; op = 3 - op {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !h.held.Load() {
			continue
		}
		to := &unix.SockaddrLinklayer{Ifindex: h.link.Attrs().Index}
		if err := unix.Sendto(h.socket, h.frame(op), 0, to); err != nil {
			log.Printf("announce: %v", err)
		}
	}
}

// frame is an ARP packet that tells all of the address, RFC 826 and RFC 5944.
func (h *holder) frame(op byte) []byte {
	all, own := []byte{255, 255, 255, 255, 255, 255}, h.link.Attrs().HardwareAddr
	f := append(append([]byte{}, all...), own...)
	f = append(f, 8, 6, 0, 1, 8, 0, 6, 4, 0, op)
	f = append(append(f, own...), h.address.AsSlice()...)
	return append(append(f, all...), h.address.AsSlice()...)
}
