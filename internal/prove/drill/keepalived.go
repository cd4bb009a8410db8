package drill

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

const keepalivedProgram = "keepalived"

// vrrpPeer is keepalived on a machine.
type vrrpPeer struct {
	iface, address string
	priority       int
	advert         time.Duration
	// check is the URL that has to answer 200, "" without one.
	check         string
	ca, cert, key string
}

// keepalivedConfig is the file of a machine, as guides have it: everybody begins as
// BACKUP and nobody preempts; a check every 3 s, of which three have to fail, with
// 2 s for an answer.
func keepalivedConfig(p vrrpPeer) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("global_defs {")
	line("  vrrp_version 3")
	line("  script_user root")
	line("  enable_script_security")
	line("}")
	if p.check != "" {
		line("vrrp_script serves {")
		line("  script \"/usr/bin/curl --silent --fail --output /dev/null --max-time 2%s %s\"", p.credentials(), p.check)
		line("  interval 3")
		line("  timeout 3")
		line("  fall 3")
		line("  rise 2")
		line("}")
	}
	line("vrrp_instance drill {")
	line("  state BACKUP")
	line("  nopreempt")
	line("  interface %s", p.iface)
	line("  virtual_router_id %d", vipRouter)
	line("  priority %d", p.priority)
	line("  advert_int %s", strconv.FormatFloat(p.advert.Seconds(), 'f', -1, 64))
	line("  virtual_ipaddress {")
	line("    %s/32", p.address)
	line("  }")
	if p.check != "" {
		line("  track_script {")
		line("    serves")
		line("  }")
	}
	line("}")
	return b.String()
}

func (p vrrpPeer) credentials() string {
	if p.cert == "" {
		return " --insecure"
	}
	return fmt.Sprintf(" --cacert %s --cert %s --key %s --resolve %s:%d:127.0.0.1", p.ca, p.cert, p.key, apiserverName, lab.APIServerPort)
}

// keepalived is that of a machine in this run.
func (e *engine) keepalived(p scenario.Process) (vrrpPeer, error) {
	v := e.c.VIP
	node, err := e.lab.Node(p.Node)
	if err != nil {
		return vrrpPeer{}, err
	}
	peer := vrrpPeer{
		iface: node.Interface(), address: e.heldAddress().String(),
		priority: v.Priority(slices.Index(v.Nodes, p.Node)), advert: v.PeerAdvert(),
	}
	switch v.Health {
	case scenario.HealthAPIServer:
		pki := e.servers[p.Node].PKI()
		peer.ca, peer.cert, peer.key = pki.CA, pki.KubeletCert, pki.KubeletKey
		peer.check = fmt.Sprintf("https://%s:%d/readyz", apiserverName, lab.APIServerPort)
	case scenario.HealthFront:
		peer.check = fmt.Sprintf("https://127.0.0.1:%d/readyz", frontPort)
	}
	return peer, nil
}

// keepalivedCommand writes the settings of keepalived and returns its command line.
func (e *engine) keepalivedCommand(p scenario.Process) ([]string, error) {
	peer, err := e.keepalived(p)
	if err != nil {
		return nil, err
	}
	path, err := e.textFile("keepalived-"+p.Node+".conf", keepalivedConfig(peer))
	if err != nil {
		return nil, err
	}
	at := func(name string) string { return filepath.Join(filepath.Dir(path), "keepalived-"+p.Node+"."+name) }
	return []string{
		keepalivedProgram, "--dont-fork", "--log-console", "--log-detail", "--vrrp", "--use-file", path,
		"--pid", at("pid"), "--vrrp_pid", at("vrrp"),
	}, nil
}

var keepalivedState = regexp.MustCompile(`\(drill\) Entering (BACKUP|MASTER|FAULT) STATE`)

// keepalivedLine reads a line of keepalived's log.
func keepalivedLine(line string) (state string, ok bool) {
	m := keepalivedState.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	return map[string]string{"BACKUP": stateBackup, "MASTER": stateActive, "FAULT": "initialize"}[m[1]], true
}
