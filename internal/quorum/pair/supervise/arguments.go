package supervise

import (
	"slices"
	"strconv"
	"strings"
)

// switches are the flags of etcd 3.5, 3.6 and 3.7 that take no value of their
// own: "--x v" is an error to etcd where x is one of them. The last line are
// flags of etcd 2 that it accepts and ignores.
var switches = strings.Fields(`
auto-tls client-cert-auth discovery-insecure-skip-tls-verify discovery-insecure-transport enable-distributed-tracing
enable-grpc-gateway enable-log-rotation enable-pprof enable-v2 experimental-compact-hash-check-enabled
experimental-enable-distributed-tracing experimental-enable-lease-checkpoint experimental-enable-lease-checkpoint-persist
experimental-initial-corrupt-check experimental-memory-mlock experimental-peer-skip-client-san-verification
experimental-stop-grpc-service-on-defrag experimental-txn-mode-write-with-shared-buffer force-new-cluster
initial-election-tick-advance memory-mlock peer-auto-tls peer-client-cert-auth peer-skip-client-san-verification pre-vote
socket-reuse-address socket-reuse-port strict-reconfig-check unsafe-no-fsync version h help
cluster-active-size cluster-remove-delay cluster-sync-interval config force max-result-buffer max-retry-attempts
peer-heartbeat-interval peer-election-timeout retry-interval snapshot v vv
`)

// valued are flags that are read here and take a value, whatever it begins with.
var valued = strings.Fields(`
name data-dir wal-dir listen-client-urls listen-client-http-urls listen-peer-urls listen-metrics-urls advertise-client-urls
initial-advertise-peer-urls initial-cluster initial-cluster-state initial-cluster-token config-file election-timeout
heartbeat-interval cert-file key-file client-cert-file client-key-file trusted-ca-file peer-cert-file peer-key-file
peer-client-cert-file peer-client-key-file peer-trusted-ca-file
`)

// argument is one flag as it stands on the command line.
type argument struct {
	name, value string
	words       []string // one, or two: as they were given
}

// parseArguments reads the arguments behind the program's name as Go's flag
// package does, which is etcd's. It need not know every flag: a word without a
// dash behind a flag can only be its value, as etcd takes no other words.
func parseArguments(words []string) ([]argument, error) {
	var all []argument
	for len(words) > 0 {
		a, n, err := parseArgument(words)
		if err != nil {
			return nil, err
		}
		a.words, words = words[:n], words[n:]
		all = append(all, a)
	}
	return all, nil
}

func parseArgument(words []string) (a argument, n int, err error) {
	word := words[0]
	if strings.ContainsRune(word, 0) {
		return a, 0, refuse(Unclear, "correct it", "argument %q has a NUL in it", word)
	}
	dashes := len(word) - len(strings.TrimLeft(word, "-"))
	name, value, given := strings.Cut(word[dashes:], "=")
	if dashes < 1 || dashes > 2 || name == "" {
		return a, 0, refuse(Unclear, "write flags as --name=value", "argument %q is no flag of etcd", word)
	}
	a = argument{name: name, value: value}
	switch {
	case given:
		return a, 1, nil
	case slices.Contains(switches, name):
		a.value = "true"
		return a, 1, nil
	case len(words) > 1 && (slices.Contains(valued, name) || !strings.HasPrefix(words[1], "-")):
		a.value = words[1]
		return a, 2, nil
	case len(words) == 1 && slices.Contains(valued, name):
		return a, 0, refuse(Unclear, "write --"+name+"=VALUE", "--%s has no value", name)
	}
	return a, 0, refuse(Unclear, "write --"+name+"=VALUE", "whether %q belongs to --%s cannot be told", strings.Join(words[1:min(2, len(words))], ""), name)
}

// input is what an etcd is started with.
type input struct {
	args []argument
	env  []string // NAME=value, of the process
}

// variable is the name of a flag in the environment.
func variable(flag string) string {
	return "ETCD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnv looks up the last value of a flag in the environment, which is the
// one that a started process finds.
func (in input) fromEnv(flag string) (value string, there bool) {
	prefix := variable(flag) + "="
	for _, e := range in.env {
		if v, ok := strings.CutPrefix(e, prefix); ok {
			value, there = v, true
		}
	}
	return value, there
}

// configFile is the path of the configuration file, empty without one.
func (in input) configFile() string {
	path := ""
	for _, a := range in.args {
		if a.name == "config-file" {
			path = a.value
		}
	}
	if path == "" {
		path, _ = in.fromEnv("config-file")
	}
	return path
}

// settings are values by flag.
type settings map[string]string

// settings merges flags and environment as etcd does without a configuration file.
func (in input) settings() (settings, error) {
	s := settings{}
	for _, a := range in.args {
		s[a.name] = a.value
	}
	for name := range s {
		if _, there := in.fromEnv(name); there {
			return nil, refuse(Unclear, "drop one of the two", "--%s and %s are both given, with which etcd does not start", name, variable(name))
		}
	}
	for _, names := range [][]string{valued, switches, refused} {
		for _, name := range names {
			if v, _ := in.fromEnv(name); v != "" {
				s[name] = v
			}
		}
	}
	return s, nil
}

// on says whether a switch is on.
func (s settings) on(name string) (bool, error) {
	v := s[name]
	if v == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, refuse(Unclear, "write true or false", "--%s is %q", name, v)
	}
	return b, nil
}

// without drops flags from the command line and the environment, for others to
// take their place.
func (in input) without(names ...string) input {
	out := input{}
	for _, a := range in.args {
		if !slices.Contains(names, a.name) {
			out.args = append(out.args, a)
		}
	}
	for _, e := range in.env {
		drop := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(e, variable(n)+"=") })
		if !drop {
			out.env = append(out.env, e)
		}
	}
	return out
}

// with appends a flag.
func (in input) with(name, value string) input {
	in.args = append(slices.Clip(in.args), argument{name: name, value: value, words: []string{"--" + name + "=" + value}})
	return in
}

// words is the command line behind the program's name.
func (in input) words() []string {
	var all []string
	for _, a := range in.args {
		all = append(all, a.words...)
	}
	return all
}

// join is the input of a member that joins a cluster. With a configuration file
// it names joinFile, which holds a copy of it with the same two settings.
func (in input) join(cluster, joinFile string) input {
	if in.configFile() != "" {
		return in.without("config-file").with("config-file", joinFile)
	}
	return in.without("initial-cluster", "initial-cluster-state").
		with("initial-cluster", cluster).with("initial-cluster-state", "existing")
}
