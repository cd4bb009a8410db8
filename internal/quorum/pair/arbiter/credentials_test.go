package arbiter

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// denied wants both calls refused, in one line that says nothing secret.
func denied(t *testing.T, s Store) {
	t.Helper()
	_, _, readErr := s.Read(soon(t))
	_, swapErr := s.Swap(soon(t), "", []byte("x"))
	for _, err := range []error{readErr, swapErr} {
		if !errors.Is(err, ErrDenied) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "guesses") {
			t.Errorf("%v, want ErrDenied", err)
		}
	}
}

func TestCredentialsOfTheServerRotate(t *testing.T) {
	settings := serve(t, t.TempDir())
	tokenOfServer := settings.TokenFile
	settings.TokenFile = filepath.Join(t.TempDir(), "token")
	write(t, settings.TokenFile, "a token that everybody guesses\n")
	s := open(t, settings)
	denied(t, s)
	write(t, settings.TokenFile, "a token that nobody guesses\n")
	one := put(t, s, "", "one")
	write(t, settings.TokenFile, "")
	two := put(t, s, one, "two") // the last good one stays
	write(t, tokenOfServer, "a new token that nobody guesses\n")
	denied(t, s)
	write(t, settings.TokenFile, "a new token that nobody guesses\n")
	put(t, s, two, "three")
}

func TestCredentialsOfS3Rotate(t *testing.T) {
	settings := startS3(t)
	good, err := os.ReadFile(settings.CredentialsFile)
	if err != nil {
		t.Fatal(err)
	}
	settings.CredentialsFile = keysFile(t, accessKey, "another that everybody guesses")
	s := open(t, settings)
	denied(t, s)
	unknown, err := os.ReadFile(keysFile(t, "nobody", secretKey))
	if err != nil {
		t.Fatal(err)
	}
	write(t, settings.CredentialsFile, string(unknown))
	denied(t, s)
	write(t, settings.CredentialsFile, string(good))
	one := put(t, s, "", "one")
	write(t, settings.CredentialsFile, "[default]\naws_access_key_id = half")
	put(t, s, one, "two")
	// From the environment.
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	settings.CredentialsFile = ""
	if data, _, err := open(t, settings).Read(soon(t)); err != nil || string(data) != "two" {
		t.Errorf("%q %v", data, err)
	}
	settings.URL = strings.Replace(settings.URL, "bucket/", "nobucket/", 1)
	none := open(t, settings)
	if _, _, err := none.Read(soon(t)); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "NoSuchBucket") {
		t.Errorf("a bucket that is not there: %v", err)
	}
	if _, err := none.Swap(soon(t), "", nil); err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrUnknown) {
		t.Errorf("a bucket that is not there: %v", err)
	}
}

func TestCredentialsOfEtcdRotate(t *testing.T) {
	e := startEtcd(t)
	admin := e.dial(t)
	for _, do := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := admin.RoleAdd(ctx, "root"); return err },
		func(ctx context.Context) error { _, err := admin.RoleAdd(ctx, "pair"); return err },
		func(ctx context.Context) error {
			_, err := admin.RoleGrantPermission(ctx, "pair", "/pairs/", clientv3.GetPrefixRangeEnd("/pairs/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func(ctx context.Context) error {
			_, err := admin.UserAdd(ctx, "root", "root that nobody guesses")
			return err
		},
		func(ctx context.Context) error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func(ctx context.Context) error {
			_, err := admin.UserAdd(ctx, "pair", "one that nobody guesses")
			return err
		},
		func(ctx context.Context) error {
			_, err := admin.UserAdd(ctx, "other", "other that nobody guesses")
			return err
		},
		func(ctx context.Context) error { _, err := admin.UserGrantRole(ctx, "pair", "pair"); return err },
		func(ctx context.Context) error { _, err := admin.AuthEnable(ctx); return err },
	} {
		if err := do(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	settings := e.settings()
	settings.URL = "etcd+https://" + e.addr + "/pairs/prod" // the dead member's error would stand beside
	settings.PasswordFile = filepath.Join(t.TempDir(), "password")
	write(t, settings.PasswordFile, "other that nobody guesses\n")
	settings.Username = "other"
	denied(t, open(t, settings)) // known, but without the right
	settings.Username = "pair"
	s := open(t, settings)
	denied(t, s)
	write(t, settings.PasswordFile, "one that nobody guesses\n")
	until(t, "the new password is shown", func() bool {
		_, _, err := s.Read(soon(t))
		return err == nil
	})
	put(t, s, "", "one")
}

func TestCredentialsOfConfigMapRotate(t *testing.T) {
	settings := startAPIServer(t, startEtcd(t))
	place, admin, _ := strings.Cut(settings.URL, "?kubeconfig=")
	good, err := os.ReadFile(admin)
	if err != nil {
		t.Fatal(err)
	}
	node, err := os.ReadFile(filepath.Join(filepath.Dir(admin), "kubelet.conf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, string(node))
	s := open(t, Settings{URL: place + "?kubeconfig=" + path})
	denied(t, s) // a kubelet may not
	write(t, path, string(good))
	until(t, "the new kubeconfig is in force", func() bool {
		_, _, err := s.Read(soon(t))
		return err == nil
	})
	one := put(t, s, "", "one")
	write(t, path, "half")
	put(t, s, one, "two")
}

// A wrong clock does no harm: the server's time is taken from its answers. versitygw
// refuses what is signed more than 15 minutes off, as AWS does.
func TestS3ByTheServersClock(t *testing.T) {
	settings := startS3(t)
	gateway := strings.TrimPrefix(settings.URL[strings.Index(settings.URL, "http://"):], "http://")
	// In front of it one that answers with a clock of its own, as a stand-in for ours
	// being wrong: requests are signed an hour ahead, and refused.
	ahead := true
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+gateway+r.URL.Path, r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		out.Header, out.Host, out.ContentLength = r.Header, r.Host, r.ContentLength
		res, err := http.DefaultClient.Do(out)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = res.Body.Close() }()
		for _, k := range []string{"ETag", "Content-Type", "Date"} {
			w.Header().Set(k, res.Header.Get(k))
		}
		if ahead {
			w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		}
		w.WriteHeader(res.StatusCode)
		_, _ = copyAll(w, res)
	}))
	defer front.Close()
	settings.URL = "s3://bucket/pairs/prod?endpoint=" + front.URL
	s := open(t, settings)
	if _, _, err := s.Read(soon(t)); err != nil {
		t.Fatal(err) // signed by our own clock, which is right
	}
	if _, _, err := s.Read(soon(t)); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "clock") {
		t.Fatalf("signed an hour ahead: %v", err)
	}
	ahead = false
	if _, _, err := s.Read(soon(t)); !errors.Is(err, ErrDenied) {
		t.Fatal(err) // this answer brings the right time
	}
	if _, _, err := s.Read(soon(t)); err != nil {
		t.Error(err)
	}
}

func copyAll(w http.ResponseWriter, res *http.Response) (int64, error) {
	buf := make([]byte, 64<<10)
	var all int64
	for {
		n, err := res.Body.Read(buf)
		all += int64(n)
		if _, werr := w.Write(buf[:n]); werr != nil {
			return all, werr
		}
		if err != nil {
			return all, err
		}
	}
}
