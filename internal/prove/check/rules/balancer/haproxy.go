package balancer

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// section is a section of haproxy.cfg and the defaults that hold for it.
type section struct {
	*conf.Block
	defaults *conf.Block
}

// setting is a statement of the section, or of its defaults; nil where neither has it.
func (s section) setting(words ...string) *conf.Block {
	if b := s.First(words...); b != nil {
		return b
	}
	return s.defaults.First(words...)
}

// timeout is that of a name; ok says that it is given and can be read.
func (s section) timeout(name string) (d time.Duration, ok bool) {
	d, err := conf.HAProxyTime(s.setting("timeout", name).Word(2))
	return d, err == nil
}

// backend is a section of haproxy.cfg with apiservers behind it.
type backend struct {
	section
	node    string
	at      fact.Location
	servers []*conf.Block
	// fronts are where its clients come in: itself for a listen section.
	fronts []section
}

func apiBackends(f *fact.Facts) []backend {
	var all []backend
	for _, file := range f.FilesAt("/etc/haproxy/*.cfg") {
		sections := sectionsOf(conf.HAProxy(file.Object.Data))
		for _, s := range sections {
			if servers := apiServers(s.Block); len(servers) > 0 {
				all = append(all, backend{s, file.Object.Node, file.At.LineIn(s.Line), servers, frontsOf(s, sections)})
			}
		}
	}
	return all
}

func sectionsOf(root *conf.Block) []section {
	var all []section
	defaults := &conf.Block{}
	for _, s := range root.Blocks {
		if s.Has("defaults") {
			defaults = s // the last before a section is its own
		}
		all = append(all, section{s, defaults})
	}
	return all
}

func frontsOf(s section, sections []section) []section {
	if s.Has("listen") {
		return []section{s}
	}
	var all []section
	for _, f := range sections {
		uses := func(b *conf.Block) bool { return b.Word(1) == s.Word(1) }
		if f.Has("frontend") && (slices.ContainsFunc(f.All("default_backend"), uses) || slices.ContainsFunc(f.All("use_backend"), uses)) {
			all = append(all, f)
		}
	}
	return all
}

// ports are those of kube-apiserver, and of the supervisors of k3s and RKE2.
var ports = []string{":6443", ":8443", ":9345"}

func apiServers(s *conf.Block) []*conf.Block {
	if !s.Has("backend") && !s.Has("listen") {
		return nil
	}
	var all []*conf.Block
	for _, server := range s.All("server") {
		if strings.Contains(s.Word(1), "apiserver") || apiPort(server.Word(2)) {
			all = append(all, server)
		}
	}
	return all
}

func apiPort(address string) bool {
	return slices.ContainsFunc(ports, func(port string) bool { return strings.HasSuffix(address, port) })
}

func hasWord(b *conf.Block, word string) bool { return b != nil && slices.Contains(b.Words, word) }

// option is the word behind key of a server's line, or of default-server.
func (b backend) option(server *conf.Block, key string) string {
	for _, line := range b.lines(server) {
		if v := line.After(key); v != "" {
			return v
		}
	}
	return ""
}

// lines are where options of a server stand, the more special ones first.
func (b backend) lines(server *conf.Block) []*conf.Block {
	all := []*conf.Block{server}
	for _, s := range []*conf.Block{b.Block, b.defaults} {
		of := s.All("default-server")
		slices.Reverse(of) // the last one counts
		all = append(all, of...)
	}
	return all
}

func (b backend) has(server *conf.Block, word string) bool {
	return slices.ContainsFunc(b.lines(server), func(line *conf.Block) bool { return hasWord(line, word) })
}

// checked says that all apiservers are checked, and by a request.
func (b backend) checked() bool {
	return b.setting("option", "httpchk") != nil &&
		!slices.ContainsFunc(b.servers, func(s *conf.Block) bool { return !b.has(s, "check") })
}

// Defaults of a server's check (HAProxy's configuration manual, section 5.2).
const (
	defaultInter = 2 * time.Second
	defaultFall  = 3
)

// hung and gone are how long a server that hangs, or refuses, is still sent to.
// Without timeout check a check has as long as inter; with it, a check that has
// connected may run beyond inter, and the next one waits for it.
func (b backend) hung(server *conf.Block) scenario.Window {
	inter, fall := b.rhythm(server)
	timeout, ok := b.timeout("check")
	if !ok {
		timeout = inter
	}
	return scenario.Checks(max(inter, timeout), timeout, fall)
}

func (b backend) gone(server *conf.Block) scenario.Window {
	inter, fall := b.rhythm(server)
	return scenario.Checks(inter, 0, fall)
}

func (b backend) rhythm(server *conf.Block) (inter time.Duration, fall int) {
	inter, fall = defaultInter, defaultFall
	if d, err := conf.HAProxyTime(b.option(server, "inter")); err == nil && d > 0 {
		inter = d
	}
	if n, err := strconv.Atoi(b.option(server, "fall")); err == nil && n > 0 && n < 1000 {
		fall = n
	}
	return inter, fall
}

// bind is an address that clients come in at. Host is "" for all addresses.
type bind struct {
	host, port string
	line       *conf.Block
}

// binds are those of a section. Sockets of the file system are left out.
func (s section) binds() []bind {
	var all []bind
	for _, line := range s.All("bind") {
		for _, address := range strings.Split(line.Word(1), ",") {
			if _, rest, ok := strings.Cut(address, "@"); ok {
				address = rest
			}
			host, port, err := net.SplitHostPort(address)
			if i := strings.LastIndexByte(address, ':'); err != nil && i >= 0 {
				host, port = address[:i], address[i+1:] // :::6443, which is [::]:6443
			} else if err != nil {
				continue
			}
			if ip := net.ParseIP(host); host == "*" || ip != nil && ip.IsUnspecified() {
				host = ""
			}
			all = append(all, bind{host, port, line})
		}
	}
	return all
}

// share is what one server of the backend is of new connections.
func (b backend) share() string {
	return fmt.Sprintf("1 of %d new connections fails", len(b.servers))
}

// judgeEach runs a rule's judgement over all backends with apiservers.
func judgeEach[T any](f *fact.Facts, judge func(*fact.Facts, backend) []T) ([]T, error) {
	backends := apiBackends(f)
	if len(backends) == 0 {
		return nil, fact.NotApplicable("no HAProxy with apiservers behind it")
	}
	var all []T
	for _, b := range backends {
		all = append(all, judge(f, b)...)
	}
	return all, nil
}
