package kubeapi

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestPatchAndDelete(t *testing.T) {
	client := plainServer(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodDelete && !strings.HasSuffix(r.URL.Path, string(body)) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"kind":"Status","message":`+"\""+strings.ReplaceAll(string(body), `"`, `'`)+`"}`)
			return
		}
		_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("Content-Type")+" "+string(body))
	})
	got, err := client.Patch(t.Context(), "/x", []byte(`{"a":null}`))
	if err != nil || string(got) != `PATCH application/merge-patch+json {"a":null}` {
		t.Errorf("patch: %s, %v", got, err)
	}
	for must, want := range map[Preconditions]string{
		{}:                               "{'kind':'DeleteOptions','apiVersion':'v1'}",
		{UID: "u"}:                       "{'kind':'DeleteOptions','apiVersion':'v1','preconditions':{'uid':'u'}}",
		{UID: "u", ResourceVersion: "7"}: "{'kind':'DeleteOptions','apiVersion':'v1','preconditions':{'uid':'u','resourceVersion':'7'}}",
	} {
		if err := client.Delete(t.Context(), "/x", must); err == nil || err.Error() != "delete /x: 409 Conflict: "+want {
			t.Errorf("%+v: %v", must, err)
		}
	}
}

func TestVersions(t *testing.T) {
	for in, want := range map[string]ServerVersion{
		`{"major":"1","minor":"35","gitVersion":"v1.35.4"}`:          {1, 35, "v1.35.4"},
		`{"major":"1","minor":"30+","gitVersion":"v1.30.2-eks-abc"}`: {1, 30, "v1.30.2-eks-abc"},
	} {
		if got, err := parseVersion([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "{}", `{"major":"a","minor":"b"}`, "<html>"} {
		if _, err := parseVersion([]byte(in)); err == nil || !strings.Contains(err.Error(), "is this a Kubernetes API?") {
			t.Errorf("%s: %v", in, err)
		}
	}
	if v := (ServerVersion{Major: 1, Minor: 34}); !v.AtLeast(1, 34) || v.AtLeast(1, 35) || v.AtLeast(2, 0) || !v.AtLeast(0, 99) {
		t.Error("AtLeast")
	}
}

func FuzzVersion(f *testing.F) {
	for _, s := range []string{`{"major":"1","minor":"35"}`, `{"major":"1","minor":"30+"}`, `{"major":1}`, "", "<html>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := parseVersion(in)
		if err != nil && (v != ServerVersion{} || strings.ContainsAny(err.Error(), "\n\r")) {
			t.Errorf("%q: %+v, %v", in, v, err)
		}
	})
}
