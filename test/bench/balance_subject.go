package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// balancer is one under test.
type balancer interface {
	name() string
	// start returns when it listens.
	start(ctx context.Context, s setup) error
	// reload puts new settings in force. It may hand over to a new process.
	reload(ctx context.Context, s setup) error
	// upgrade hands the listener over to a new process; the old one drains.
	upgrade(ctx context.Context) error
	// transitions counts the verdicts about backends that changed since the
	// start.
	transitions() (int, error)
	// pid is the process that accepts.
	pid() int
	// tail is the end of what its newest process has printed.
	tail() string
	// stop ends all its processes.
	stop()
}

// setup is what a balancer is told.
type setup struct {
	host     string // "": 127.0.0.1
	port     int
	backends []string // addresses with port
	tls      bool     // check GET /readyz over TLS; otherwise connect
}

// listen is where clients come to.
func (s setup) listen() string {
	return net.JoinHostPort(cmp.Or(s.host, "127.0.0.1"), strconv.Itoa(s.port))
}

// makers make the balancers that are compared: ours first.
func (g *ground) makers() []func() balancer {
	return []func() balancer{
		func() balancer { return &holdfast{g: g} },
		func() balancer { return &haproxy{g: g} },
	}
}

const peerName = "HAProxy 2.6"

// processes are the ones that a balancer has started, the newest last.
type processes []*child

func (p processes) pid() int { return p[len(p)-1].pid() }

func (p processes) tail() string {
	if len(p) == 0 {
		return ""
	}
	return p[len(p)-1].tail()
}

func (p processes) stop() {
	for _, c := range p {
		c.kill()
	}
}

// takeover waits until the newest process listens and the one before does not.
func (p processes) takeover(ctx context.Context, port int) error {
	if err := p[len(p)-1].serving(ctx, port); err != nil {
		return err
	}
	old := p[len(p)-2]
	return until(ctx, 10*time.Second, "old process stops listening", func() (bool, error) {
		still, err := listening(old.pid(), port)
		return !still, err
	})
}

// haproxy is the peer, with the settings recommended in front of apiservers.
type haproxy struct {
	processes
	g    *ground
	now  setup
	base string // path without suffix
}

func (h *haproxy) name() string { return peerName }

func (h *haproxy) start(ctx context.Context, s setup) error {
	h.base = filepath.Join(h.g.dir, "haproxy-"+strconv.Itoa(s.port))
	if err := h.write(s); err != nil {
		return err
	}
	c, err := h.g.spawn("haproxy", "haproxy", "-db", "-f", h.base+".cfg")
	if err != nil {
		return err
	}
	h.processes = processes{c}
	return c.serving(ctx, s.port)
}

func (h *haproxy) write(s setup) error {
	h.now = s
	return os.WriteFile(h.base+".cfg", []byte(haproxyConfig(s, h.base+".sock", h.g.pki.CA)), 0o644)
}

func (h *haproxy) reload(ctx context.Context, s setup) error {
	if err := h.write(s); err != nil {
		return err
	}
	return h.upgrade(ctx)
}

// upgrade is HAProxy's seamless reload: the new process fetches the listeners
// over the stats socket (-x) and tells the old one to finish (-sf).
func (h *haproxy) upgrade(ctx context.Context) error {
	c, err := h.g.spawn("haproxy", "haproxy", "-db", "-f", h.base+".cfg", "-x", h.base+".sock", "-sf", strconv.Itoa(h.pid()))
	if err != nil {
		return err
	}
	h.processes = append(h.processes, c)
	return h.takeover(ctx, h.now.port)
}

// transitions sums up the column chkdown, transitions from UP to DOWN.
func (h *haproxy) transitions() (int, error) {
	conn, err := net.DialTimeout("unix", h.base+".sock", time.Second)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, "show stat\n"); err != nil {
		return 0, err
	}
	b, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	return countDown(string(b))
}

// countDown reads HAProxy's statistics (management guide, section 9.1).
func countDown(text string) (int, error) {
	lines := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "# ")))
	lines.FieldsPerRecord = -1
	all, err := lines.ReadAll()
	if err != nil || len(all) == 0 {
		return 0, fmt.Errorf("statistics of haproxy: no table: %w", err)
	}
	column := map[string]int{}
	for i, name := range all[0] {
		column[name] = i
	}
	sum := 0
	for _, r := range all[1:] {
		if server := r[column["svname"]]; server == "FRONTEND" || server == "BACKEND" {
			continue
		}
		n, err := strconv.Atoi(r[column["chkdown"]])
		if err != nil {
			return 0, fmt.Errorf("statistics of haproxy: chkdown: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// haproxyConfig writes what guides recommend in front of apiservers. maxconn
// keeps its sum of descriptors below 20,000; connecting for a second and
// redispatching on each retry is the kindest it can be to a client.
func haproxyConfig(s setup, socket, ca string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `global
  maxconn 8000
  maxpipes 1000
  nbthread 2
  stats socket %s mode 600 level admin expose-fd listeners
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
  timeout check 1s
  timeout queue 5s
  option redispatch 1
  retries 3
  retry-on conn-failure
  option splice-auto
  option clitcpka
  option srvtcpka
listen kube-apiserver
  bind %s
  balance roundrobin
`, socket, s.listen())
	check := ""
	if s.tls {
		b.WriteString("  option httpchk\n  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host kubernetes\n  http-check expect status 200\n")
		check = " check-ssl verify required ca-file " + ca
	}
	fmt.Fprintf(&b, "  default-server check%s inter 2s fastinter 500ms downinter 1s fall 2 rise 2 on-marked-down shutdown-sessions\n", check)
	for i, address := range s.backends {
		fmt.Fprintf(&b, "  server b%d %s\n", i+1, address)
	}
	return b.String()
}

// holdfast is ours.
type holdfast struct {
	processes
	g       *ground
	profile string // "" for our own timers
	now     setup
	base    string
}

func (h *holdfast) name() string {
	if h.profile != "" {
		return h.profile + " timers"
	}
	return "holdfast"
}

func (h *holdfast) start(ctx context.Context, s setup) error {
	h.base = filepath.Join(h.g.dir, "holdfast-"+strconv.Itoa(s.port))
	if err := h.write(s); err != nil {
		return err
	}
	c, err := h.g.spawn("holdfast", h.argv()...)
	if err != nil {
		return err
	}
	h.processes = processes{c}
	return c.serving(ctx, s.port)
}

func (h *holdfast) argv(more ...string) []string {
	argv := []string{h.g.binary, "balance", "run", "--config", h.base + ".yaml"}
	if h.profile != "" {
		argv = append(argv, "--profile", h.profile)
	}
	return append(argv, more...)
}

func (h *holdfast) write(s setup) error {
	h.now = s
	return os.WriteFile(h.base+".yaml", []byte(holdfastConfig(s, h.base+".sock", h.g.pki.CA)), 0o644)
}

func (h *holdfast) reload(ctx context.Context, s setup) error {
	if err := h.write(s); err != nil {
		return err
	}
	if err := h.processes[len(h.processes)-1].signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	return ctx.Err()
}

func (h *holdfast) upgrade(ctx context.Context) error {
	c, err := h.g.spawn("holdfast", h.argv("--upgrade")...)
	if err != nil {
		return err
	}
	h.processes = append(h.processes, c)
	return h.takeover(ctx, h.now.port)
}

// transitions counts the log lines of verdicts that changed, beyond the first
// one about each backend.
func (h *holdfast) transitions() (int, error) {
	n := 0
	for _, c := range h.processes {
		for line := range strings.Lines(c.log()) {
			var l struct{ Msg, From string }
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "backend changed" && l.From != "unknown" {
				n++
			}
		}
	}
	return n, nil
}

// holdfastConfig leaves everything at its default that has one. Telemetry
// stands two thousand ports above the frontend.
func holdfastConfig(s setup, socket, ca string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "frontends:\n  - name: kube-apiserver\n    listen: [%q]\n    backends:\n      static:\n", s.listen())
	for _, address := range s.backends {
		fmt.Fprintf(&b, "        - {address: %q}\n", address)
	}
	check := "{kind: tcp}"
	if s.tls {
		check = fmt.Sprintf("{kind: https, path: /readyz, ca: %q}", ca)
	}
	fmt.Fprintf(&b, "    check: %s\ntelemetry: {listen: \"127.0.0.1:%d\"}\ncontrol: %q\nlog: {format: json}\n", check, s.port+2000, socket)
	return b.String()
}
