package imports

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files")

// TestFiles compares what comes of each file of testdata, notes first.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.*.*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			cmd := Command(func([]byte) error { return nil })
			var out, errs bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			cmd.SetArgs([]string{file})
			if err := cmd.Execute(); err != nil {
				t.Fatalf("%v\n%s", err, errs.String())
			}
			got := "stderr:\n" + errs.String() + "stdout:\n" + out.String()
			golden := file + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s\nif that is meant, run with -update", got, want)
			}
		})
	}
}

const head = "vrrp_instance A {\nvirtual_router_id 5\nvirtual_ipaddress {\n10.0.0.1\n}\n"

func TestMistakesOfKeepalived(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"include", "include /etc/keepalived/*.conf\n", "line 1: include: other files are not read"},
		{"open block", "vrrp_instance A {\n", "line 1: a block is not closed"},
		{"closed twice", head + "}\n}\n", "line 7: a } too many"},
		{"no name", "{\n}\n", "line 1: a block without a name"},
		{"quote", "vrrp_instance \"A {\n}\n", "line 1: a quote is not closed"},
		{"variable", head + "priority $P\n}\n", "line 6: $P is not defined above"},
		{"condition", "@cp1 vrrp_instance A {\n}\n", "line 1: @cp1: conditions are not followed"},
		{"priority", head + "priority high\n}\n", `line 6: priority: "high" is out of range; write 1 to 255`},
		{"state", head + "state SLAVE\n}\n", `line 6: state: "SLAVE" is not known`},
		{"interval", head + "advert_int often\n}\n", `line 6: advert_int: "often" is not a time`},
		{"no id", "vrrp_instance A {\nvirtual_ipaddress {\n10.0.0.1\n}\n}\n", "line 1: vrrp_instance: virtual_router_id is missing"},
		{"no address", "vrrp_instance A {\nvirtual_router_id 5\n}\n", "line 1: vrrp_instance: virtual_ipaddress is missing"},
		{"address", head + "virtual_ipaddress {\nvip.example.org\n}\n}\n", "line 7: vip.example.org: is not an address"},
		{"session", head + "track_bfd {\nchk\n}\n}\n", "line 7: chk: is not defined; define it with bfd_instance"},
		{"neighbor", "bfd_instance A {\n}\n" + head + "}\n", `line 1: bfd_instance: neighbor_ip is ""; name the neighbor`},
		{"script", head + "track_script {\nchk\n}\n}\n", "line 7: chk: is not defined"},
		{"group", head + "}\nvrrp_sync_group G {\ngroup {\nA\nB\n}\n}\n", "line 8: group: there is no vrrp_instance B"},
		{"nothing", "# empty\n", "is this the right file?"},
		{"deep", strings.Repeat("a {\n", 40), "blocks are more than 16 deep"},
	} {
		_, err := Keepalived([]byte(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestMistakesOfKubeVIP(t *testing.T) {
	pod := func(env ...string) string {
		text := "kind: Pod\nspec:\n  containers:\n  - name: kube-vip\n    env:\n"
		for _, e := range env {
			name, value, _ := strings.Cut(e, "=")
			text += "    - {name: " + name + ", value: '" + value + "'}\n"
		}
		return text
	}
	for _, c := range []struct{ name, in, want string }{
		{"another file", "kind: Pod\nspec: {containers: [{name: nginx}]}\n", "no container of kube-vip"},
		{"no YAML", "kind: [\n", "read YAML"},
		{"nothing on", pod("cp_enable=false"), "is this the right file?"},
		{"no address", pod("cp_enable=true", "vip_arp=true"), "address: missing"},
		{"name", pod("cp_enable=true", "vip_arp=true", "address=vip.example.org"), "names are not resolved"},
		{"no mode", pod("cp_enable=true", "address=10.0.0.1"), "none of vip_arp, bgp_enable"},
		{"truth", pod("cp_enable=perhaps"), `"perhaps" is not a truth value`},
		{"duration", pod("cp_enable=true", "vip_arp=true", "address=10.0.0.1", "vip_leaseduration=5s"), `vip_leaseduration: "5s"`},
		{"no router", pod("cp_enable=true", "bgp_enable=true", "address=10.0.0.1"), "bgp_peers: no router"},
		{"router", pod("cp_enable=true", "bgp_enable=true", "address=10.0.0.1", "bgp_peers=router:65001"), `"router" is not an address`},
		{"AS", pod("cp_enable=true", "bgp_enable=true", "address=10.0.0.1", "bgp_peers=192.0.2.1"), `"" is not an AS`},
	} {
		_, err := KubeVIP([]byte(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestMistakesAreOneLineEach(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keepalived.conf")
	if err := os.WriteFile(file, []byte(head+"priority high\nstate SLAVE\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := Command(func([]byte) error { return nil })
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs([]string{file})
	err := cmd.Execute()
	if err == nil || !strings.Contains(err.Error(), "2 mistakes") || strings.Count(errs.String(), "\n") != 2 || out.Len() > 0 {
		t.Errorf("got %v, stderr %q, stdout %q", err, errs.String(), out.String())
	}
}

func seed(f *testing.F, pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

func FuzzKeepalived(f *testing.F) {
	seed(f, "testdata/*.keepalived.conf")
	f.Add([]byte("$A=$A$A\n$A=b {\n}\n${A} \"'\n\\\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Keepalived(data)
		if (err == nil) != (len(r.YAML) > 0) {
			t.Errorf("error %v and %d bytes of YAML", err, len(r.YAML))
		}
	})
}

func FuzzKubeVIP(f *testing.F) {
	seed(f, "testdata/*.kube-vip.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := KubeVIP(data)
		if (err == nil) != (len(r.YAML) > 0) {
			t.Errorf("error %v and %d bytes of YAML", err, len(r.YAML))
		}
	})
}
