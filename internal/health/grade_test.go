package health

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestGradeText(t *testing.T) {
	for g := Unknown; g <= Ready; g++ {
		data, err := json.Marshal(g)
		var back Grade
		if err != nil || json.Unmarshal(data, &back) != nil || back != g {
			t.Errorf("%s: %s, %v, back %s", g, data, err, back)
		}
		if g.Usable() != (g == Alive || g == Ready) {
			t.Errorf("%s usable: %v", g, g.Usable())
		}
	}
	var g Grade
	if err := g.UnmarshalText([]byte("splendid")); err == nil || !strings.Contains(err.Error(), "splendid") {
		t.Errorf("got %v", err)
	}
	if s := Grade(99).String() + Evidence(99).String(); s != "grade 99evidence 99" {
		t.Errorf("got %q", s)
	}
}

func TestProfilesAreValid(t *testing.T) {
	for _, timers := range []Timers{Default(), Seed(), Anchors()} {
		if err := timers.Validate(); err != nil {
			t.Errorf("%+v: %v", timers, err)
		}
	}
	for _, c := range []struct {
		want string
		set  func(*Timers)
	}{
		{"period: 0s is too short", func(t *Timers) { t.Period = 0 }},
		{"timeout: 2s is longer than the period of 1s", func(t *Timers) { t.Timeout = 2 * time.Second }},
		{"suspect: 800ms does not fit", func(t *Timers) { t.Suspect = 800 * ms }},
		{"rise, fall: 2, 0", func(t *Timers) { t.Fall = 0 }},
		{"freshEvery: -1", func(t *Timers) { t.FreshEvery = -1 }},
	} {
		timers := Default()
		c.set(&timers)
		if err := timers.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestGradeOfErrors(t *testing.T) {
	dial := func(errno syscall.Errno) error {
		return fmt.Errorf("connect: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)})
	}
	alert := &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx       context.Context
		err       error
		connected bool
		shows     bool
		grade     Grade
		refused   bool
	}{
		{t.Context(), dial(syscall.ECONNREFUSED), false, false, Refused, false},
		{t.Context(), dial(syscall.ECONNRESET), true, false, Refused, false},
		{t.Context(), io.ErrUnexpectedEOF, true, false, Refused, false},
		{t.Context(), dial(syscall.EHOSTUNREACH), false, false, Unreachable, false},
		{t.Context(), dial(syscall.ENETUNREACH), false, false, Unreachable, false},
		{t.Context(), dial(syscall.EPERM), false, false, Unreachable, false},
		{t.Context(), dial(syscall.ETIMEDOUT), false, false, Unreachable, false},
		{t.Context(), dial(syscall.ETIMEDOUT), true, false, Frozen, false},
		{t.Context(), &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, false, false, Unreachable, false},
		{t.Context(), context.DeadlineExceeded, false, false, Unreachable, false},
		{ended, net.ErrClosed, false, false, Unreachable, false},
		{ended, net.ErrClosed, true, false, Frozen, false},
		{t.Context(), dial(syscall.EMFILE), false, false, Unknown, false},
		{t.Context(), dial(syscall.EADDRNOTAVAIL), false, false, Unknown, false},
		{t.Context(), alert, true, false, Alive, false},
		{t.Context(), alert, true, true, Alive, true},
		{t.Context(), &net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")}, true, true, NotReady, false},
		{t.Context(), tls.RecordHeaderError{Msg: "x"}, true, false, NotReady, false},
		{t.Context(), errors.New("two\nlines"), true, false, NotReady, false},
	} {
		r := gradeError(c.ctx, c.err, c.connected, c.shows)
		if r.Grade != c.grade || r.CredentialsRefused != c.refused || r.Reason == "" || strings.Contains(r.Reason, "\n") {
			t.Errorf("%v: %+v, want %s", c.err, r, c.grade)
		}
	}
}
