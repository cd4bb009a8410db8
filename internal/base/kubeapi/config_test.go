package kubeapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// kubeconfigOf is a kubeconfig with the given lines of cluster and user.
func kubeconfigOf(cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: main
clusters: [{name: c, cluster: {%s}}, {name: other, cluster: {server: "https://other:6443"}}]
contexts: [{name: main, context: {cluster: c, user: u, namespace: ns}}, {name: second, context: {cluster: other}}]
users: [{name: u, user: {%s}}]
preferences: {}
`, cluster, user)
}

func TestParseKubeconfig(t *testing.T) {
	const server = `server: "https://10.0.0.1:6443"`
	for _, c := range []struct {
		name, in, want string // want is the error; "" is success
	}{
		{"files", kubeconfigOf(server+", certificate-authority: ca.crt, tls-server-name: api", "client-certificate: pki/c.crt, client-key: /pki/c.key"), ""},
		{"data", kubeconfigOf(server+", certificate-authority-data: "+b64("ca"), "client-certificate-data: "+b64("cert")+", client-key-data: "+b64("key")), ""},
		{"token", kubeconfigOf(server, "token: t, tokenFile: t.txt"), ""},
		{"JSON", `{"current-context":"m","clusters":[{"name":"c","cluster":{"server":"https://a:1"}}],"contexts":[{"name":"m","context":{"cluster":"c"}}]}`, ""},
		{"insecure", kubeconfigOf(server+", insecure-skip-tls-verify: true", ""), `cluster "c": insecure-skip-tls-verify: whoever answers could name the backends; give certificate-authority instead`},
		{"proxy", kubeconfigOf(server+`, proxy-url: "http://p:1"`, ""), `cluster "c": proxy-url: not supported, the API is reached directly; remove it`},
		{"exec", kubeconfigOf(server, "exec: {command: aws}"), `user "u": exec: a program that obtains credentials is not run by an agent; give token, tokenFile or a client certificate`},
		{"auth-provider", kubeconfigOf(server, "auth-provider: {name: gcp}"), `user "u": auth-provider: not supported; give token, tokenFile or a client certificate`},
		{"password", kubeconfigOf(server, "username: a, password: hunter2"), `user "u": username and password: no longer accepted by Kubernetes; give token, tokenFile or a client certificate`},
		{"impersonation", kubeconfigOf(server, "as: admin"), `user "u": as: impersonation is not supported; give credentials of the user itself`},
		{"not base64", kubeconfigOf(server, "client-key-data: hunter2!"), `user "u": client-key-data: not base64; encode the PEM file with base64`},
		{"no server", kubeconfigOf("certificate-authority: x", ""), `cluster "c": server "": not a URL; write https://HOST:PORT`},
		{"http", kubeconfigOf(`server: "http://10.0.0.1:8080"`, ""), `cluster "c": server "http://10.0.0.1:8080": plain http to another machine; write https://HOST:PORT`},
		{"http with token", kubeconfigOf(`server: "http://127.0.0.1:8080"`, "token: hunter2"), `user "u": server "http://127.0.0.1:8080": credentials would travel in the clear; write https://HOST:PORT`},
		{"no current context", "clusters: []\n", `current-context: empty; set it or name a context`},
		{"unknown context", "current-context: x\n", `context "x": not in the file; name one that is`},
		{"unknown cluster", "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\n", `cluster "y": named by the context but not in the file; add it`},
		{"unknown user", "current-context: x\ncontexts: [{name: x, context: {cluster: y, user: z}}]\nclusters: [{name: y, cluster: {server: 'https://a:1'}}]\n", `user "z": named by the context but not in the file; add it`},
		{"wrong type", kubeconfigOf(server, "token: {hunter2: 1}"), `line 6: not the YAML of a kubeconfig; compare with one that kubectl reads`},
		{"not YAML", "a: [hunter2", `line 1: not the YAML of a kubeconfig; compare with one that kubectl reads`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			config, err := ParseKubeconfig([]byte(c.in), "/etc/dir", "")
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if shown := fmt.Sprintf("%v %+v %#v", config, config, config) + got; strings.Contains(shown, "hunter") {
				t.Errorf("shows a secret: %s", shown)
			}
		})
	}
}

func TestReadKubeconfigResolvesPaths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := kubeconfigOf(`server: "https://10.0.0.1:6443/k8s/", certificate-authority: ca.crt`, "client-certificate: pki/c.crt, client-key: /pki/c.key, tokenFile: t")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ReadKubeconfig(path, "")
	dir := filepath.Dir(path)
	if err != nil || c.CAFile != dir+"/ca.crt" || c.CertFile != dir+"/pki/c.crt" || c.KeyFile != "/pki/c.key" || c.TokenFile != dir+"/t" || c.Namespace != "ns" {
		t.Errorf("%#v, %v", c, err)
	}
	if c, err = ReadKubeconfig(path, "second"); err != nil || c.Server != "https://other:6443" || c.hasToken() {
		t.Errorf("%v, %v", c, err)
	}
	if _, err = ReadKubeconfig(path+"x", ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestInCluster(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
	get := func(k string) string { return env[k] }
	if _, err := inCluster(dir, get); !errors.Is(err, ErrNotInCluster) {
		t.Errorf("without token: %v", err)
	}
	for name, text := range map[string]string{"token": "t\n", "namespace": "kube-system\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := inCluster(dir, get)
	if err != nil || c.Server != "https://[fd00::1]:443" || c.Namespace != "kube-system" || c.CAFile != dir+"/ca.crt" {
		t.Errorf("%v, %v", c, err)
	}
	clear(env)
	if _, err := inCluster(dir, get); !errors.Is(err, ErrNotInCluster) {
		t.Errorf("without environment: %v", err)
	}
}

// FuzzParseKubeconfig checks that no file panics and errors are one line.
func FuzzParseKubeconfig(f *testing.F) {
	f.Add(kubeconfigOf(`server: "https://10.0.0.1:6443"`, "token: t"))
	f.Add(kubeconfigOf(`server: "https://a@b:6443?x"`, "exec: {}"))
	f.Add("current-context: &a [*a]\n")
	f.Add("<<: 1\n")
	f.Fuzz(func(t *testing.T, in string) {
		c, err := ParseKubeconfig([]byte(in), "/etc", "")
		if err == nil {
			if _, err := c.base(); err != nil {
				t.Fatalf("accepted, but %v", err)
			}
		} else if strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("not one line: %q", err)
		}
	})
}
