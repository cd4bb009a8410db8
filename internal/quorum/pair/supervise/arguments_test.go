package supervise

import (
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// The newest etcd's own flags: which of them take a value.
func TestSwitchesAreEtcds(t *testing.T) {
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(fs)
	fs.VisitAll(func(f *flag.Flag) {
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		isSwitch := ok && b.IsBoolFlag()
		if isSwitch != slices.Contains(switches, f.Name) {
			t.Errorf("--%s: a switch to etcd: %v", f.Name, isSwitch)
		}
	})
	for _, name := range valued {
		// These two are not of the library, but of the program.
		if fs.Lookup(name) == nil && name != "config-file" && name != "initial-cluster-state" {
			t.Errorf("--%s is no flag of etcd", name)
		}
	}
}

func words(line string) []string { return strings.Fields(line) }

func TestDescribe(t *testing.T) {
	lone := Etcd{
		Name: "default", DataDir: "/srv/default.etcd", ClientURLs: []string{defaultClient}, PeerURLs: []string{defaultPeer},
		AdvertiseClient: []string{defaultClient}, AdvertisePeer: []string{defaultPeer},
		InitialCluster: map[string][]string{"default": {defaultPeer}}, ElectionTimeout: time.Second, Heartbeat: 100 * time.Millisecond,
	}
	with := func(change func(*Etcd)) Etcd {
		e := lone
		change(&e)
		return e
	}
	for _, c := range []struct {
		name, line string
		env        []string
		want       Etcd
	}{
		{"nothing", "", nil, lone},
		{"both forms, the last counts", "--name=x -name a --data-dir /d/ --pre-vote -data-dir=e/../f", nil, with(func(e *Etcd) {
			e.Name, e.DataDir, e.InitialCluster = "a", "/srv/f", map[string][]string{"a": {defaultPeer}}
		})},
		{"environment", "--pre-vote=false", []string{"ETCD_NAME=x", "ETCD_NAME=a", "ETCD_DATA_DIR=/d", "ETCD_WAL_DIR=", "OTHER=1"}, with(func(e *Etcd) {
			e.Name, e.DataDir, e.InitialCluster = "a", "/d", map[string][]string{"a": {defaultPeer}}
		})},
		{"members", "--initial-cluster a=https://10.0.0.1:2380,b=https://10.0.0.2:2380,b=https://[fd00::2]:2380 --wal-dir /w", nil, with(func(e *Etcd) {
			e.WALDir = "/w"
			e.InitialCluster = map[string][]string{"a": {"https://10.0.0.1:2380"}, "b": {"https://10.0.0.2:2380", "https://[fd00::2]:2380"}}
		})},
		{"the wal's usual place", "--data-dir /d --wal-dir /d/member/wal/", nil, with(func(e *Etcd) { e.DataDir = "/d" })},
		{"timers", "--election-timeout 3000 --heartbeat-interval=250", nil, with(func(e *Etcd) {
			e.ElectionTimeout, e.Heartbeat = 3*time.Second, 250*time.Millisecond
		})},
		{"certificates", "--listen-client-urls https://127.0.0.1:2379,http://127.0.0.1:2381 --advertise-client-urls https://10.0.0.1:2379 " +
			"--cert-file s.crt --key-file /k --trusted-ca-file ca.crt --peer-cert-file=unused --listen-metrics-urls http://127.0.0.1:2382", nil, with(func(e *Etcd) {
			e.ClientURLs = []string{"https://127.0.0.1:2379", "http://127.0.0.1:2381"}
			e.AdvertiseClient, e.MetricsURLs = []string{"https://10.0.0.1:2379"}, []string{"http://127.0.0.1:2382"}
			e.ClientTLS = creds.Files{CA: "/srv/ca.crt", Cert: "/srv/s.crt", Key: "/k"}
		})},
		{"certificates of clients", "--listen-peer-urls https://10.0.0.1:2380 --peer-cert-file p --peer-key-file k --peer-trusted-ca-file c " +
			"--peer-client-cert-file pc --peer-client-key-file pk", nil, with(func(e *Etcd) {
			e.PeerURLs = []string{"https://10.0.0.1:2380"}
			e.PeerTLS = creds.Files{CA: "/srv/c", Cert: "/srv/pc", Key: "/srv/pk"}
		})},
		{"flags that are not read", "--experimental-initial-corrupt-check --snapshot-count 5000 --quota-backend-bytes=8 --vv", nil, lone},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got, err := understand(words(c.line), c.env, "/srv")
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		line, env string
		want      Reason
	}{
		{"--force-new-cluster", "", Unfit}, {"--force-new-cluster=true", "", Unfit}, {"", "ETCD_FORCE_NEW_CLUSTER=1", Unfit},
		{"--unsafe-no-fsync", "", Unfit}, {"--auto-tls", "", Unfit}, {"--peer-auto-tls=t", "", Unfit}, {"--version", "", Unfit}, {"-h", "", Unfit},
		{"--data-dir /d --wal-dir /d", "", Unfit}, {"--data-dir /d --wal-dir=/d/member/", "", Unfit}, {"--data-dir /d/e --wal-dir /d", "", Unfit},
		{"--data-dir /d/e --wal-dir /", "", Unfit}, {"--data-dir /d --wal-dir /d/member/snap", "", Unfit},
		{"--discovery-srv example.com", "", Unfit}, {"--discovery=https://x", "", Unfit}, {"--proxy on", "", Unfit},
		{"--discovery-endpoints http://x:1", "", Unfit}, {"", "ETCD_DISCOVERY_TOKEN=x", Unfit},
		{"--initial-cluster-state maybe", "", Unclear}, {"--force-new-cluster=maybe", "", Unclear},
		{"gateway start", "", Unclear}, {"--pre-vote true", "", Unclear}, {"--", "", Unclear}, {"-", "", Unclear}, {"---name=a", "", Unclear},
		{"--=a", "", Unclear}, {"--name", "", Unclear}, {"--unheard-of --name=a", "", Unclear}, {"--unheard-of", "", Unclear},
		{"--name a", "ETCD_NAME=b", Unclear}, {"--snapshot-count 5", "ETCD_SNAPSHOT_COUNT=", Unclear},
		{"--listen-client-urls http://0.0.0.0:2379", "", Unclear}, {"--listen-peer-urls ftp://x:1", "", Unclear},
		{"--listen-peer-urls http://x", "", Unclear}, {"--listen-peer-urls %zz", "", Unclear}, {"--initial-cluster a", "", Unclear},
		{"--initial-cluster a=", "", Unclear}, {"--initial-cluster a=http://x:1,=http://y:1", "", Unclear},
		{"--election-timeout 3s", "", Unclear}, {"--heartbeat-interval 0", "", Unclear}, {"--config-file /none", "", Unclear},
	} {
		_, _, err := understand(words(c.line), []string{c.env}, "/srv")
		refusal(t, err, c.want)
		t.Log(err)
	}
	for _, line := range []string{"--force-new-cluster=false", "--proxy off", "--initial-cluster-state existing", "--initial-cluster-state=new"} {
		if _, _, err := understand(words(line), nil, "/srv"); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestJoinRewritesFlagsAndEnvironment(t *testing.T) {
	args, err := parseArguments(words("--name a --initial-cluster-state new -initial-cluster=a=http://a:1 --pre-vote"))
	if err != nil {
		t.Fatal(err)
	}
	got := input{args: args, env: []string{"ETCD_INITIAL_CLUSTER=x", "ETCD_INITIAL_CLUSTER_STATE=new", "ETCD_INITIAL_CLUSTER_TOKEN=t", "A=b"}}.join("a=http://a:1,b=http://b:1", "/f")
	if want := words("--name a --pre-vote --initial-cluster=a=http://a:1,b=http://b:1 --initial-cluster-state=existing"); !slices.Equal(got.words(), want) {
		t.Errorf("%q\nwant %q", got.words(), want)
	}
	if want := []string{"ETCD_INITIAL_CLUSTER_TOKEN=t", "A=b"}; !slices.Equal(got.env, want) {
		t.Errorf("%q\nwant %q", got.env, want)
	}
	for _, in := range []input{{env: []string{"ETCD_CONFIG_FILE=/x"}}, {args: []argument{{name: "config-file", value: "/x", words: words("--config-file /x")}}}} {
		if got := in.join("c", "/f"); !slices.Equal(got.words(), words("--config-file=/f")) || len(got.env) != 0 {
			t.Errorf("%q, %q", got.words(), got.env)
		}
	}
}

// FuzzArguments: what is read of a command line is what Go's flag package reads,
// which is etcd's; and nothing is lost of it.
func FuzzArguments(f *testing.F) {
	for _, line := range []string{
		"", "--name a", "-name=a --pre-vote --data-dir /d", "--initial-cluster=a=http://a:1 --initial-cluster a=http://b:1",
		"--pre-vote=false -name -x", "--snapshot-count 5 --unheard-of=1", "-- a", "--name", "--data-dir= --name=",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		given := strings.Split(line, " ")
		if line == "" {
			given = nil
		}
		args, err := parseArguments(given)
		if err != nil {
			var r *Refusal
			if !errors.As(err, &r) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: %v", given, err)
			}
			return
		}
		in := input{args: args}
		if !slices.Equal(in.words(), given) {
			t.Fatalf("%q became %q", given, in.words())
		}
		fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
		fs.SetOutput(discardWriter{})
		config := embed.NewConfig()
		config.AddFlags(fs)
		fs.String("config-file", "", "")
		fs.String("initial-cluster-state", "", "")
		if fs.Parse(given) != nil || fs.NArg() > 0 {
			return
		}
		s, err := in.settings()
		if err != nil {
			t.Fatalf("%q: %v", given, err)
		}
		for name, want := range map[string]string{"name": config.Name, "data-dir": config.Dir, "wal-dir": config.WalDir, "initial-cluster": config.InitialCluster, "cert-file": config.ClientTLSInfo.CertFile} {
			if got, ok := s[name]; ok && got != want {
				t.Errorf("%q: --%s is %q, and %q to etcd", given, name, got, want)
			}
		}
		if on, err := s.on("force-new-cluster"); err != nil || on != config.ForceNewCluster {
			t.Errorf("%q: --force-new-cluster is %v, %v, and %v to etcd", given, on, err, config.ForceNewCluster)
		}
	})
}

type discardWriter struct{}

func (discardWriter) Write(b []byte) (int, error) { return len(b), nil }

// etcdReads is what etcd itself reads of a configuration file.
func etcdReads(t *testing.T, content []byte) (*embed.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "etcd.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return embed.ConfigFromFile(path)
}

var sampleFiles = []string{
	"", "name: a", "{name: a, data-dir: /d}", "name: 010\nwal-dir: null\n", "NAME: b\nname: a\n", "name: yes",
	"# of a\nname: a\ndata-dir: /d\nlisten-client-urls: http://10.0.0.1:2379\nadvertise-client-urls: http://10.0.0.1:2379\ninitial-cluster: a=http://a:1\nInitial-Cluster: a=http://z:1\ninitial-cluster-state: new\nheartbeat-interval: 200\n",
	"quota-backend-bytes: 8589934592\nelection-timeout: 2000\nheartbeat-interval: 100\nlog-outputs: [stderr]\n",
	"client-transport-security:\n  cert-file: c\n  key-file: k\n  client-cert-auth: true\n  trusted-ca-file: ca\nlisten-client-urls: https://10.0.0.1:2379\nadvertise-client-urls: https://10.0.0.1:2379\n",
	"name: a\n---\nname: b\n", "a: &x [*x]", "force-new-cluster: true", "unsafe-no-fsync: true", "? [a]\n: b", "\x00", "discovery-config:\n  token: x\n  endpoints: [http://x:1]\n",
}

func TestFileIsReadAsEtcdReadsIt(t *testing.T) {
	for _, text := range sampleFiles {
		compareFile(t, []byte(text))
	}
}

// compareFile holds what is read of a file, and of its copy for a join, beside
// what etcd reads.
func compareFile(t *testing.T, content []byte) {
	t.Helper()
	s, err := parseFile(content)
	if err != nil {
		if c, etcdErr := etcdReads(t, content); etcdErr == nil && c != nil {
			t.Errorf("%q: refused (%v), and etcd takes it", content, err)
		}
		return
	}
	config, err := etcdReads(t, content)
	if err != nil {
		return
	}
	for name, want := range map[string]string{"name": config.Name, "data-dir": config.Dir, "wal-dir": config.WalDir, "initial-cluster": config.InitialCluster, "cert-file": config.ClientTLSInfo.CertFile} {
		if s[name] != "" && s[name] != want {
			t.Errorf("%q: %s is %q, and %q to etcd", content, name, s[name], want)
		}
	}
	if on, err := s.on("force-new-cluster"); err != nil || on != config.ForceNewCluster {
		t.Errorf("%q: force-new-cluster is %v, %v, and %v to etcd", content, on, err, config.ForceNewCluster)
	}
	const cluster = "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380"
	copied, err := joinFile(content, cluster)
	if err != nil {
		t.Errorf("%q: %v", content, err)
		return
	}
	joined, err := etcdReads(t, copied)
	if err != nil || joined.InitialCluster != cluster || joined.ClusterState != "existing" {
		t.Errorf("%q: the copy is %q, %v", content, copied, err)
		return
	}
	joined.InitialCluster, joined.ClusterState = config.InitialCluster, config.ClusterState
	a, b := map[string]any{}, map[string]any{}
	if err := errors.Join(plain(config, &a), plain(joined, &b)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		for _, k := range slices.Sorted(maps.Keys(a)) {
			if !reflect.DeepEqual(a[k], b[k]) {
				t.Errorf("%q: the copy says %v of %s, not %v", content, b[k], k, a[k])
			}
		}
	}
}

// plain is what of a configuration can be compared.
func plain(c *embed.Config, into *map[string]any) error {
	v := reflect.ValueOf(*c)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "FlagsExplicitlySet" {
			continue
		}
		switch f.Type.Kind() {
		case reflect.Func, reflect.Interface, reflect.Chan, reflect.Pointer:
			continue
		}
		b, err := json.Marshal(v.Field(i).Interface())
		if err != nil {
			continue
		}
		(*into)[f.Name] = string(b)
	}
	return nil
}

// FuzzFile: no file brings the reader down, and whatever it reads is what etcd
// reads, in the copy for a join too.
func FuzzFile(f *testing.F) {
	for _, text := range sampleFiles {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		s, err := parseFile(content)
		if err != nil {
			if strings.Contains(err.Error(), "correct the file") {
				return
			}
			t.Fatalf("%q: %v", content, err)
		}
		_, _ = describe(s, "/srv")
		// etcd ends the process over some URLs, and reads files named in it.
		for _, bad := range []string{"urls", "cors", "log", "gates", "tls", "file"} {
			if strings.Contains(strings.ToLower(string(content)), bad) {
				return
			}
		}
		compareFile(t, content)
	})
}
