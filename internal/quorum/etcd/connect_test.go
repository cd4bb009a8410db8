package etcd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

func passwordFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An agent often starts before its etcd. With an account, too, that is a
// condition of the calls, and no call takes longer than its context.
func TestDialWithAccountDoesNotWaitForEtcd(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connects, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	start := time.Now()
	m, err := Dial("http://"+silent.Addr().String(), Access{Username: "root", PasswordFile: passwordFile(t, "pw\n")})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > callTimeout/2 {
		t.Errorf("Dial took %s", took)
	}
	if _, err := m.Status(t.Context()); err == nil || !strings.Contains(err.Error(), m.Endpoint) {
		t.Errorf("status: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := m.Client(t.Context()); err == nil {
		t.Error("a closed member gives a client")
	}
}

func TestReadPassword(t *testing.T) {
	if p, err := ReadPassword(passwordFile(t, "s e cret\r\n")); err != nil || p != "s e cret" {
		t.Errorf("%q, %v", p, err)
	}
	for _, text := range []string{"", "\n", "user\npassword\n"} {
		if p, err := ReadPassword(passwordFile(t, text)); err == nil || !strings.Contains(err.Error(), "etcd.passwordFile") {
			t.Errorf("%q: %q, %v", text, p, err)
		}
	}
	if _, err := ReadPassword("/nonexistent"); err == nil || !strings.Contains(err.Error(), "etcd.passwordFile") {
		t.Errorf("missing: %v", err)
	}
}

// busy is an etcd that takes its time for an account, as bcrypt does on a busy machine.
type busy struct {
	etcdserverpb.UnimplementedAuthServer
	etcdserverpb.UnimplementedMaintenanceServer
	takes time.Duration
}

func (b *busy) Authenticate(ctx context.Context, _ *etcdserverpb.AuthenticateRequest) (*etcdserverpb.AuthenticateResponse, error) {
	select {
	case <-time.After(b.takes):
		return &etcdserverpb.AuthenticateResponse{Header: &etcdserverpb.ResponseHeader{}, Token: "token"}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *busy) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{MemberId: 7}}, nil
}

// A member that needs longer for the account than one attempt has is reached all the
// same, with more patience from attempt to attempt.
func TestAccountOfABusyMember(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, b := grpc.NewServer(), &busy{takes: callTimeout * 3 / 2}
	etcdserverpb.RegisterAuthServer(s, b)
	etcdserverpb.RegisterMaintenanceServer(s, b)
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	m, err := Dial("http://"+l.Addr().String(), Access{Username: "root", PasswordFile: passwordFile(t, "pw\n")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		status, err := m.Status(t.Context())
		if err == nil && status.Member == 7 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never reached: %v", err)
		}
	}
}

func TestPatienceGrowsWithSlowAttemptsAndIsTheCallers(t *testing.T) {
	var none *connection
	for _, c := range []struct {
		was        *connection
		left, want time.Duration
	}{
		{none, 0, callTimeout},
		{none, callTimeout / 2, callTimeout},
		{none, time.Minute, mostPatience},
		{&connection{patience: 4 * callTimeout}, 0, callTimeout},
		{&connection{patience: callTimeout, slow: true}, 0, 2 * callTimeout},
		{&connection{patience: mostPatience, slow: true}, 0, mostPatience},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if c.left > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.left)
				defer cancel()
			}
			if got := c.was.nextPatience(ctx); got != c.want {
				t.Errorf("after %+v, with %s left: %s, want %s", c.was, c.left, got, c.want)
			}
		})
	}
}
