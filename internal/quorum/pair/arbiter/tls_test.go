package arbiter

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/server"
)

func authority(t *testing.T, dir, name string, names ...string) pki.Files {
	t.Helper()
	ca, err := pki.NewAuthority(dir, name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	node := "n"
	if len(names) > 0 {
		node = names[0]
	}
	files, err := ca.Issue(filepath.Join(dir, "n"), node, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Over TLS with client certificates: who has none is refused, and a new authority
// takes effect while the server runs.
func TestServerOverTLS(t *testing.T) {
	dir, addr := t.TempDir(), freeAddress(t)
	files := authority(t, dir, "one")
	settings := server.Settings{Listen: addr, Dir: t.TempDir(), CertFile: files.ServerCert, KeyFile: files.ServerKey, ClientCAFile: files.CA}
	if err := settings.Check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log, done := &logged{}, make(chan error, 1)
	go func() { done <- server.Run(ctx, log, settings) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	until(t, "the server serves", func() bool { return log.has("serving") })
	with := Settings{URL: "https://" + addr + "/pairs/prod", CAFile: files.CA, CertFile: files.ClientCert, KeyFile: files.ClientKey}
	s := open(t, with)
	one := put(t, s, "", "one")
	without := open(t, Settings{URL: with.URL, CAFile: with.CAFile})
	if _, _, err := without.Read(soon(t)); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
	strange := authority(t, t.TempDir(), "strange")
	if _, _, err := open(t, Settings{URL: with.URL, CAFile: strange.CA, CertFile: strange.ClientCert, KeyFile: strange.ClientKey}).Read(soon(t)); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "CA") {
		t.Errorf("of another authority: %v", err)
	}
	authority(t, dir, "two") // into the same files
	fresh := open(t, with)
	until(t, "the new authority is in force", func() bool {
		_, _, err := fresh.Read(soon(t))
		return err == nil
	})
	put(t, fresh, one, "two")
}

// resolver answers every name below "test." with 127.0.0.1, for this process only.
func resolver(t *testing.T) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if b := resolve(buf[:n]); b != nil {
				_, _ = conn.WriteTo(b, from)
			}
		}
	})
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = was
		_ = conn.Close()
		serving.Wait()
	})
}

func resolve(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.Additionals = true, nil
	q := m.Questions[0]
	if q.Type == dnsmessage.TypeA && strings.HasSuffix(q.Name.String(), ".test.") {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// The bucket in front of the host name, over TLS, on a real server.
func TestS3ByVirtualHost(t *testing.T) {
	resolver(t)
	files := authority(t, t.TempDir(), "s3", "bucket.s3.test")
	addr := versitygw(t, t.TempDir(), []string{"--cert", files.ServerCert, "--key", files.ServerKey, "--virtual-domain", "s3.test"})
	_, port, _ := net.SplitHostPort(addr)
	settings := Settings{
		URL:    "s3://bucket/pairs/prod?style=virtual&endpoint=https://s3.test:" + port,
		CAFile: files.CA, CredentialsFile: keysFile(t, accessKey, secretKey),
	}
	s := open(t, settings)
	put(t, s, put(t, s, "", "one"), "two")
	loses(t, s, "")
	if trial, err := Race(soon(t), s, RoundsAtStart); err != nil {
		t.Errorf("%+v %v", trial, err)
	}
}
