package etcd

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
