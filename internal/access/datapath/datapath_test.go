package datapath

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

func TestWhatIsHonoured(t *testing.T) {
	v := func(minor int) kubeapi.ServerVersion { return kubeapi.ServerVersion{Major: 1, Minor: minor} }
	for _, c := range []struct {
		in       Datapath
		prefer   string
		sameZone string // part of the doubt
	}{
		{Datapath{Kind: KubeProxy, Server: v(35)}, "PreferSameZone", ""},
		{Datapath{Kind: KubeProxy, Server: v(33)}, "PreferClose", "kube-proxy ignores it"},
		{Datapath{Kind: Cilium, Major: 1, Minor: 19, Server: v(35)}, "PreferClose", "cilium 1.19 ignores it"},
		{Datapath{Kind: Cilium, Major: 1, Minor: 20, Server: v(35)}, "PreferSameZone", ""},
		{Datapath{Kind: Cilium, Server: v(35)}, "PreferClose", "cilium ignores it"},
		{Datapath{Kind: Unknown, Server: v(35)}, "PreferClose", "not known to be honoured"},
		{Datapath{}, "PreferClose", "not known to be honoured"},
	} {
		if got := c.in.Prefer(); got != c.prefer {
			t.Errorf("%s: prefers %s", c.in, got)
		}
		if got := c.in.Doubt(c.in.Prefer()); got != "" {
			t.Errorf("%s: doubts what it prefers: %s", c.in, got)
		}
		for _, value := range []string{"PreferClose", "PreferSameZone", "PreferSameNode", ""} {
			if honoured := slices.Contains(c.in.Honours(), value); honoured != (c.in.Doubt(value) == "") {
				t.Errorf("%s: honours %q: %t, and doubts it: %q", c.in, value, honoured, c.in.Doubt(value))
			}
		}
		if got := c.in.Doubt("PreferSameZone"); (got == "") != (c.sameZone == "") || !strings.Contains(got, c.sameZone) {
			t.Errorf("%s: PreferSameZone: %q", c.in, got)
		}
		for _, value := range []string{"", "PreferSameNode", "Nonsense"} {
			if got := c.in.Doubt(value); !strings.HasSuffix(got, "set "+c.prefer) {
				t.Errorf("%s: %q: %q", c.in, value, got)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{"kube-proxy": "kube-proxy", "cilium": "cilium", "cilium-1.19": "cilium 1.19", "cilium-v1.20.3": "cilium 1.20"} {
		if got, known, err := Parse(text); err != nil || !known || got.String() != want {
			t.Errorf("%s: %s, %v, %v", text, got, known, err)
		}
	}
	if _, known, err := Parse("auto"); known || err != nil {
		t.Error("auto is known")
	}
	if _, _, err := Parse("ovn"); err == nil || err.Error() != `datapath: "ovn"; write auto, kube-proxy, cilium or cilium-1.19` {
		t.Error(err)
	}
}

func TestVersionOfImages(t *testing.T) {
	for image, want := range map[string]string{
		"quay.io/cilium/cilium:v1.19.5@sha256:ab12":   "cilium 1.19",
		"quay.io/cilium/cilium:v1.20.0-rc.1":          "cilium 1.20",
		"example.org:5000/mirror/cilium:1.18":         "cilium 1.18",
		"example.org:5000/mirror/cilium@sha256:1.234": "cilium",
		"cilium:latest": "cilium",
		"":              "cilium",
	} {
		if got := ofImage(image).String(); got != want {
			t.Errorf("%s: %s", image, got)
		}
	}
}

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name, setting, want, err string
		code                     int
		body                     string
	}{
		{"none", "auto", "kube-proxy", "", 404, "{}"},
		{"cilium", "auto", "cilium 1.19", "", 200, `{"spec":{"template":{"spec":{"containers":[{"name":"x","image":"y:1.2"},{"name":"cilium-agent","image":"c:v1.19.1"}]}}}}`},
		{"denied", "auto", "unknown", "403 Forbidden", 403, "{}"},
		{"nonsense", "auto", "unknown", "not the expected JSON", 200, "<html>"},
		{"named", "cilium-1.20", "cilium 1.20", "", 403, "{}"},
		{"wrong", "ovn", "unknown", "write auto", 403, "{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					_, _ = w.Write([]byte(`{"major":"1","minor":"35"}`))
					return
				}
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			defer s.Close()
			client, err := kubeapi.New(kubeapi.Config{Server: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			got, err := Detect(t.Context(), client, c.setting)
			if got.String() != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// FuzzNames checks that no setting and no image is read as a version that makes
// a value honoured which the text does not speak of.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "auto", "cilium-1.19", "cilium v1.20", "quay.io/cilium/cilium:v1.19.5@sha256:ab", ":99999999999999999999.1", "a:1.2.3-x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, known, err := Parse(text)
		if err != nil && (known || strings.ContainsAny(err.Error(), "\n\r")) {
			t.Errorf("%q: %v", text, err)
		}
		for _, each := range []Datapath{d, ofImage(text)} {
			if each.Doubt(each.Prefer()) != "" || each.Major < 0 || each.Minor < 0 {
				t.Errorf("%q: %+v", text, each)
			}
		}
	})
}
