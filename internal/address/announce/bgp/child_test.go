package bgp

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/address/bfd"
	strict "github.com/holdfast-ha/holdfast/internal/base/config"
)

// childVariable makes the test's program a speaker: a process of its own can be
// killed, stopped and weighed, and stands in one network namespace.
const childVariable = "HOLDFAST_TEST_BGP_SETTINGS"

func TestMain(m *testing.M) {
	if file := os.Getenv(childVariable); file != "" {
		if err := child(file); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child announces what it is told to on stdin (up, down or drain ADDRESS, status) until
// SIGTERM.
func child(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var s Settings
	if err := strict.Load(file, &s); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	living, end := context.WithCancel(context.Background())
	defer end()
	m, err := bfd.New(bfd.Options{Log: log})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Run(living) }()
	sp, err := New(s, Options{Log: log, BFD: m})
	if err != nil {
		return err
	}
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			verb, text, _ := strings.Cut(in.Text(), " ")
			if verb == "status" {
				for _, p := range sp.Status() {
					log.Info("status", "state", p.State, "tries", p.Tries, "ups", p.Ups, "announced", p.Announced)
				}
				continue
			}
			a := netip.MustParseAddr(text)
			switch verb {
			case "up":
				sp.Up(a)
			case "down":
				sp.Down(a)
			case "drain":
				sp.Drain(netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}()
	if err := sp.Run(ctx); err != nil {
		return err
	}
	end()
	return <-ended
}
