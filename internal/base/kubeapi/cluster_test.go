package kubeapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestFindServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfigOf(`server: "https://10.0.0.1:6443"`, "token: t")), 0o600); err != nil {
		t.Fatal(err)
	}
	servers := []string{"https://127.0.0.1:7445", "https://10.0.0.2:6443"}
	c, err := FindServers(path, "", servers)
	if err != nil || !slices.Equal(c.Servers, servers) || !c.AnyServer || c.Token != "t" || c.attempt() != attemptTimeout {
		t.Errorf("%+v, %v", c, err)
	}
	if text := c.String(); text != "https://127.0.0.1:7445, https://10.0.0.2:6443 with a token" {
		t.Errorf("told as %q", text)
	}
	if c, err := FindServers(path, "", nil); err != nil || c.Server != "https://10.0.0.1:6443" || c.AnyServer || c.attempt() != requestTimeout {
		t.Errorf("%+v, %v", c, err)
	}
	for server, want := range map[string]string{
		"10.0.0.2:6443":        "not a URL; write https://HOST:PORT",
		"http://10.0.0.2:6443": "credentials would travel in the clear",
	} {
		if _, err := FindServers(path, "", []string{servers[0], server}); err == nil || !strings.HasPrefix(err.Error(), "servers[1]: server ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", server, err)
		}
	}
	if _, err := FindServers("", "", servers); err == nil || !strings.Contains(err.Error(), "give a kubeconfig") {
		t.Errorf("outside a pod: %v", err)
	}
}

func TestServiceAccountWithoutEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := serviceAccount(dir); err != nil || c.Server != "" || c.TokenFile == "" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Each of several servers is verified, and a failing one's successor is found.
func TestServersAreVerifiedEach(t *testing.T) {
	good, f := secured(t, ClusterName, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "good") })
	impostor, _ := secured(t, ClusterName, func(http.ResponseWriter, *http.Request) { t.Error("the impostor was asked") })
	client, err := New(Config{Servers: []string{impostor, good}, AnyServer: true, CAFile: f.CA, CertFile: f.ClientCert, KeyFile: f.ClientKey})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if got, err := client.Get(t.Context(), "/x", nil); err != nil || string(got) != "good" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAClusterReadsItsCredentialsAgainAfterAFailure(t *testing.T) {
	code := http.StatusUnauthorized
	server, f := secured(t, ClusterName, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := kubeconfigOf(`server: "`+server+`", certificate-authority: `+f.CA, "client-certificate: "+f.ClientCert+", client-key: "+f.ClientKey)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := &Cluster{Kubeconfig: path, Servers: []string{server}}
	ask := func() *Client {
		client, err := cluster.Client()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Get(t.Context(), "/x", nil); Code(err) != code && (err != nil || code != http.StatusOK) {
			t.Fatal(err)
		}
		return client
	}
	first := ask()
	code = http.StatusOK
	second := ask()
	if first == second {
		t.Error("the client was kept though its credentials were refused")
	}
	if ask() != second {
		t.Error("the client was remade without need")
	}
	second.Close()
}

// outage is a Cluster whose one server refuses every connection.
func outage(t *testing.T) *Cluster {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfigOf(`server: "https://10.0.0.1:6443"`, "token: t")), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Cluster{Kubeconfig: path, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}}
}

// In an outage every request fails; credentials are not read for each.
func TestAClusterIsNotRemadeForEveryFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, seen := outage(t), map[*Client]bool{}
		for range 100 { // in 10 s
			client, err := cluster.Client()
			if err != nil {
				t.Fatal(err)
			}
			seen[client] = true
			if _, err := client.Get(t.Context(), "/x", nil); err == nil {
				t.Fatal("answered")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(seen); n < 9 || n > 11 {
			t.Errorf("made %d clients in ten seconds", n)
		}
	})
}

func TestManyWhoFindAClientFailedShareTheNext(t *testing.T) {
	cluster := outage(t)
	old, err := cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	old.failed.Store(true)
	var got [20]*Client
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], _ = cluster.Client() })
	}
	wg.Wait()
	for _, each := range got {
		if each == old || each != got[0] {
			t.Fatal("clients differ: one that nobody closes")
		}
	}
}
