package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goodToken = "0123456789abcdef"

func newHandler(t testing.TB, dir string) *handler {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := openShelf(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("# two\n"+goodToken+"\n\nfedcba9876543210\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := openTokens(path, log)
	if err != nil {
		t.Fatal(err)
	}
	return &handler{shelf: s, tokens: tokens, log: log}
}

// ask sends one request; header is "Key: value" lines.
func ask(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://arbiter/", strings.NewReader(body))
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	r.Header.Set("Authorization", "Bearer "+goodToken)
	for _, line := range header {
		k, v, _ := strings.Cut(line, ": ")
		r.Header.Add(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const create = "If-None-Match: *"

func TestAnswers(t *testing.T) {
	h := newHandler(t, t.TempDir())
	made := ask(h, "PUT", "/pairs/prod", "one", create)
	etag := made.Header().Get("ETag")
	if made.Code != http.StatusNoContent || len(etag) != 34 {
		t.Fatalf("%d %q", made.Code, etag)
	}
	for _, c := range []struct {
		method, path, body string
		header             []string
		want               int
	}{
		{"GET", "/pairs/prod", "", nil, 200},
		{"HEAD", "/pairs/prod", "", nil, 200},
		{"GET", "/pairs", "", nil, 404},
		{"GET", "/pairs/prod2", "", nil, 404},
		{"PUT", "/pairs/prod", "two", []string{create}, 412},
		{"PUT", "/pairs/prod", "two", []string{`If-Match: "0"`}, 412},
		{"PUT", "/pairs/new", "two", []string{"If-Match: " + etag}, 412},
		{"PUT", "/pairs/prod", "two", nil, 428},
		{"PUT", "/pairs/prod", "two", []string{"If-Match: *"}, 428},
		{"PUT", "/pairs/prod", "two", []string{"If-Match: W/" + etag}, 428},
		{"PUT", "/pairs/prod", "two", []string{"If-Match: " + etag + `, "x"`}, 428},
		{"PUT", "/pairs/prod", "two", []string{"If-Match: " + etag, `If-Match: "x"`}, 428},
		{"PUT", "/pairs/prod", "two", []string{"If-Match: " + etag, create}, 428},
		{"PUT", "/pairs/prod", "two", []string{"If-None-Match: " + etag}, 428},
		{"PUT", "/pairs/prod", strings.Repeat("x", 4097), []string{"If-Match: " + etag}, 413},
		{"PUT", "/pairs/../../etc/passwd", "x", []string{create}, 400},
		{"PUT", "/.hidden", "x", []string{create}, 400},
		{"PUT", "/a%b", "x", []string{create}, 400},
		{"PUT", "//", "x", []string{create}, 400},
		{"PUT", "/a\x00b", "x", []string{create}, 400},
		{"PUT", "/" + strings.Repeat("x", 201), "x", []string{create}, 400},
		{"GET", "/pairs/prod?versionId=1", "", nil, 400},
		{"DELETE", "/pairs/prod", "", nil, 405},
		{"POST", "/pairs/prod", "x", []string{create}, 405},
		{"GET", "/", "", nil, 400},
	} {
		w := ask(h, c.method, c.path, c.body, c.header...)
		if w.Code != c.want {
			t.Errorf("%s %q %v: %d, want %d", c.method, c.path, c.header, w.Code, c.want)
		}
	}
	if w := ask(h, "GET", "/pairs/prod", ""); w.Body.String() != "one" || w.Header().Get("ETag") != etag {
		t.Errorf("after all that: %q %q", w.Body, w.Header().Get("ETag"))
	}
	if w := ask(h, "PUT", "/pairs/prod", strings.Repeat("x", 4096), "If-Match: "+etag); w.Code != http.StatusNoContent {
		t.Errorf("a body as large as may be: %d", w.Code)
	}
}

func TestTokens(t *testing.T) {
	h := newHandler(t, t.TempDir())
	code := func(header string) int {
		r := httptest.NewRequest("GET", "/x", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for header, want := range map[string]int{
		"": 401, "Bearer ": 401, "Bearer # two": 401, "bearer": 401, "Basic " + goodToken: 401, "Bearer " + goodToken[:15]: 401,
		"Bearer " + goodToken: 404, "Bearer fedcba9876543210": 404,
	} {
		if got := code(header); got != want {
			t.Errorf("%q: %d, want %d", header, got, want)
		}
	}
	write := func(s string) {
		if err := os.WriteFile(h.tokens.path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("another token, long enough\n")
	if a, b := code("Bearer "+goodToken), code("Bearer another token, long enough"); a != 401 || b != 404 {
		t.Errorf("after the file was replaced: %d for the old, %d for the new token", a, b)
	}
	write("short\n")
	if got := code("Bearer another token, long enough"); got != 404 {
		t.Errorf("a file that cannot be used took the last good token away: %d", got)
	}
	if w := httptest.NewRecorder(); true {
		h.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
		if w.Code != 200 {
			t.Errorf("healthz without a token: %d", w.Code)
		}
	}
}

// Whatever comes, an object changes only by a condition that names its version.
func FuzzHandler(f *testing.F) {
	f.Add("PUT", "/pairs/prod", "two", `"x"`, "")
	f.Add("PUT", "/pairs/prod", "two", "", "*")
	f.Add("GET", "/..//%2e%2e/x", "", "*", "*")
	f.Add("PATCH", "/pairs%prod", "", "W/\"\"", "a, b")
	h := newHandler(f, f.TempDir())
	if w := ask(h, "PUT", "/pairs/prod", "one", create); w.Code != http.StatusNoContent {
		f.Fatal(w.Code)
	}
	f.Fuzz(func(t *testing.T, method, path, body, match, none string) {
		r := httptest.NewRequest("GET", "http://arbiter/", strings.NewReader(body))
		r.Method, r.URL.Path = method, path
		r.Header["Authorization"] = []string{"Bearer " + goodToken}
		if match != "" {
			r.Header["If-Match"] = []string{match}
		}
		if none != "" {
			r.Header["If-None-Match"] = []string{none}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 599 || w.Code == 500 {
			t.Errorf("status %d", w.Code)
		}
		if got := ask(h, "GET", "/pairs/prod", "").Body.String(); got != "one" {
			t.Fatalf("%q %q changed it to %q", method, path, got)
		}
	})
}

func FuzzFile(f *testing.F) {
	good := encode(content{version: newVersion(), data: []byte("{}")})
	f.Add(good)
	f.Add(good[:40])
	f.Add(append([]byte("x"), good...))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b)
		if err == nil && string(encode(c)) != string(b) {
			t.Errorf("%q was read as %+v", b, c)
		}
	})
}

func TestNamesOfFiles(t *testing.T) {
	for _, key := range []string{"a", "pairs/prod", "a.b/c-d_e~f", strings.Repeat("k", mostKey)} {
		name := fileOf(key)
		if got, ok := keyOf(name); !ok || got != key || strings.Contains(name, "/") || len(name) > 255 {
			t.Errorf("%q became %q and %q", key, name, got)
		}
	}
	for _, name := range []string{"lost+found", "x", ".object", "%.object", "a%.object", "..%x.object", "a.object.new"} {
		if key, ok := keyOf(name); ok {
			t.Errorf("%q was read as key %q", name, key)
		}
	}
}

func ExampleSettings_Check() {
	s := DefaultSettings()
	s.Listen = ":9387"
	fmt.Println(s.Check())
	// Output: listen ":9387" without TLS: whoever is on the way could decide who serves; give cert-file and key-file, or listen on 127.0.0.1
}
