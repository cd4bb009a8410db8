package pki

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// ServiceIP is the address of the Service default/kubernetes: the first of
// kubeadm's default range 10.96.0.0/12, which every apiserver's certificate
// carries.
var ServiceIP = netip.MustParseAddr("10.96.0.1")

// Kubernetes are the paths of one node's share of a Kubernetes cluster's TLS
// material, named as kubeadm names them below /etc/kubernetes.
type Kubernetes struct {
	Dir string `json:"dir"`
	CA  string `json:"ca"`
	// ServerCert is what the apiserver of this node serves with.
	ServerCert string `json:"server_cert"`
	ServerKey  string `json:"server_key"`
	// KubeletClientCert is how the apiserver calls kubelets.
	KubeletClientCert string `json:"kubelet_client_cert"`
	KubeletClientKey  string `json:"kubelet_client_key"`
	// AdminCert is of system:masters, KubeletCert of system:node:NODE.
	AdminCert   string `json:"admin_cert"`
	AdminKey    string `json:"admin_key"`
	KubeletCert string `json:"kubelet_cert"`
	KubeletKey  string `json:"kubelet_key"`
	// AdminConf and KubeletConf are kubeconfig files with everything in them.
	AdminConf   string `json:"admin_conf"`
	KubeletConf string `json:"kubelet_conf"`
	// ControllerManagerConf, SchedulerConf and KubeProxyConf are the same for
	// system:kube-controller-manager, system:kube-scheduler and
	// system:kube-proxy. KubeletConf and KubeProxyConf name Node.NodeServer,
	// the others Node.Server.
	ControllerManagerConf string `json:"controller_manager_conf"`
	SchedulerConf         string `json:"scheduler_conf"`
	KubeProxyConf         string `json:"kube_proxy_conf"`
	// CAKey is the key of the authority, for a kube-controller-manager that
	// signs certificates.
	CAKey string `json:"ca_key"`
	// FrontProxyCA has signed FrontProxyClientCert, with which an apiserver
	// calls aggregated ones. The controller manager and the scheduler ask for
	// it even where nothing aggregates. They are the cluster's.
	FrontProxyCA         string `json:"front_proxy_ca"`
	FrontProxyClientCert string `json:"front_proxy_client_cert"`
	FrontProxyClientKey  string `json:"front_proxy_client_key"`
	// ServiceAccountKey and ServiceAccountPub are the cluster's, the same for
	// every node.
	ServiceAccountKey string `json:"service_account_key"`
	ServiceAccountPub string `json:"service_account_pub"`
}

// KubernetesIn names the files that a node keeps in dir. Those of the cluster
// stand in the directory of the authority, shared.
func KubernetesIn(shared, dir string) Kubernetes {
	p := func(name string) string { return filepath.Join(dir, name) }
	c := func(name string) string { return filepath.Join(shared, name) }
	return Kubernetes{
		Dir: dir, CA: p("ca.crt"),
		ServerCert: p("apiserver.crt"), ServerKey: p("apiserver.key"),
		KubeletClientCert: p("apiserver-kubelet-client.crt"), KubeletClientKey: p("apiserver-kubelet-client.key"),
		AdminCert: p("admin.crt"), AdminKey: p("admin.key"),
		KubeletCert: p("kubelet-client.crt"), KubeletKey: p("kubelet-client.key"),
		AdminConf: p("admin.conf"), KubeletConf: p("kubelet.conf"),
		ControllerManagerConf: p("controller-manager.conf"), SchedulerConf: p("scheduler.conf"), KubeProxyConf: p("kube-proxy.conf"),
		FrontProxyCA: c("front-proxy/ca.crt"), FrontProxyClientCert: c("front-proxy-client.crt"), FrontProxyClientKey: c("front-proxy-client.key"),
		CAKey: c("ca.key"), ServiceAccountKey: c("sa.key"), ServiceAccountPub: c("sa.pub"),
	}
}

// MakeServiceAccountKey writes sa.key and sa.pub, with which the apiservers of
// a cluster sign and verify tokens, into dir.
func MakeServiceAccountKey(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate service account key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	f := KubernetesIn(dir, dir)
	return store(f.ServiceAccountPub, f.ServiceAccountKey, encode("PUBLIC KEY", der), key)
}

// MakeFrontProxy writes the front proxy's authority and client certificate into
// dir, the directory of the cluster's authority.
func MakeFrontProxy(dir string, now time.Time) error {
	f := KubernetesIn(dir, dir)
	ca, err := NewAuthority(filepath.Dir(f.FrontProxyCA), "front-proxy-ca", now)
	if err != nil {
		return err
	}
	return ca.sign(ca.client("front-proxy-client"), f.FrontProxyClientCert, f.FrontProxyClientKey)
}

// Node says for whom IssueKubernetes makes files.
type Node struct {
	Name string
	// Server is the URL of the apiserver that its administrator, controller
	// manager and scheduler talk to; NodeServer the one that its kubelet and
	// kube-proxy do, "" for the same.
	Server, NodeServer string
	// IPs are the node's addresses.
	IPs []netip.Addr
}

// IssueKubernetes writes the files of a node into dir. The apiserver's
// certificate is valid for the names kubeadm gives it: the node, localhost, the
// loopbacks, the Service default/kubernetes under each of its names and the
// node's addresses, so that a balancer on any node's loopback passes for it.
// shared is the directory of the authority.
func (a *Authority) IssueKubernetes(shared, dir string, n Node) (Kubernetes, error) {
	f := KubernetesIn(shared, dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return f, fmt.Errorf("make certificate directory: %w", err)
	}
	if err := os.WriteFile(f.CA, a.pem, 0o644); err != nil {
		return f, fmt.Errorf("write authority certificate: %w", err)
	}
	for _, c := range []struct {
		t         *x509.Certificate
		cert, key string
	}{
		{a.apiserver(n.Name, n.IPs), f.ServerCert, f.ServerKey},
		{a.client("kube-apiserver-kubelet-client", "system:masters"), f.KubeletClientCert, f.KubeletClientKey},
		{a.client("kubernetes-super-admin", "system:masters"), f.AdminCert, f.AdminKey},
		{a.client("system:node:"+n.Name, "system:nodes"), f.KubeletCert, f.KubeletKey},
	} {
		if err := a.sign(c.t, c.cert, c.key); err != nil {
			return f, err
		}
	}
	return f, a.kubeconfigs(f, n)
}

// kubeconfigs writes every kubeconfig of a node. Like kubeadm, it leaves no
// other file of the certificates that stand in one alone.
func (a *Authority) kubeconfigs(f Kubernetes, n Node) error {
	nodeServer := cmp.Or(n.NodeServer, n.Server)
	if err := a.kubeconfig(f.AdminConf, n.Server, "admin", f.AdminCert, f.AdminKey); err != nil {
		return err
	}
	if err := a.kubeconfig(f.KubeletConf, nodeServer, "system:node:"+n.Name, f.KubeletCert, f.KubeletKey); err != nil {
		return err
	}
	for _, c := range []struct {
		path, server, user string
		groups             []string
	}{
		{f.ControllerManagerConf, n.Server, "system:kube-controller-manager", nil},
		{f.SchedulerConf, n.Server, "system:kube-scheduler", nil},
		{f.KubeProxyConf, nodeServer, "system:kube-proxy", []string{"system:node-proxier"}},
	} {
		cert, key := c.path+".crt", c.path+".key"
		if err := a.sign(a.client(c.user, c.groups...), cert, key); err != nil {
			return err
		}
		if err := a.kubeconfig(c.path, c.server, c.user, cert, key); err != nil {
			return err
		}
		if err := errors.Join(os.Remove(cert), os.Remove(key)); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	return nil
}

func (a *Authority) apiserver(node string, ips []netip.Addr) *x509.Certificate {
	t := template("kube-apiserver", nil, a.now)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.DNSNames = []string{
		node, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, ServiceIP.AsSlice()}
	for _, ip := range ips {
		t.IPAddresses = append(t.IPAddresses, ip.AsSlice())
	}
	return t
}

func (a *Authority) client(name string, groups ...string) *x509.Certificate {
	t := template(name, groups, a.now)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return t
}

// kubeconfigForm has everything in it, so that the file can be taken anywhere.
const kubeconfigForm = `apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    certificate-authority-data: %s
    server: %s
users:
- name: %[3]q
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: lab
  context: {cluster: lab, user: %[3]q}
current-context: lab
`

func (a *Authority) kubeconfig(path, server, user, certFile, keyFile string) error {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	data := base64.StdEncoding.EncodeToString
	text := fmt.Sprintf(kubeconfigForm, data(a.pem), server, user, data(cert), data(key))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
