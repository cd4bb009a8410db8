package probe

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// A PATCH arrives as configured, each with a time of its own.
func TestRequestIsSent(t *testing.T) {
	noLeaks(t)
	var mu sync.Mutex
	bodies := map[string]bool{}
	url, material, _ := startHTTP(t, true, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPatch || r.Header.Get("Content-Type") != "application/merge-patch+json" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		bodies[string(data)] = true
	})
	cfg := httpConfig(url, material, ModeReused, 5*time.Second)
	cfg.Targets[0].Request = &Request{Method: http.MethodPatch, ContentType: "application/merge-patch+json", Body: `{"spec":{"renewTime":"{{now}}"}}`}
	for _, s := range follow(t, cfg, after(3))["h/http/reused"] {
		if !s.OK {
			t.Errorf("sample %d: %s", s.Seq, s.Error)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(bodies) < 3 {
		t.Errorf("bodies %v, want one per sample", bodies)
	}
	for b := range bodies {
		at, ok := strings.CutPrefix(b, `{"spec":{"renewTime":"`)
		if _, err := time.Parse(nowForm, strings.TrimSuffix(at, `"}}`)); !ok || err != nil {
			t.Errorf("body %s: %v", b, err)
		}
	}
}

func TestTurnsOfARequest(t *testing.T) {
	u, err := url.Parse("https://10.96.0.1/apis/leases/drill?dryRun=All")
	if err != nil {
		t.Fatal(err)
	}
	for attempt, want := range []string{"drill-0?dryRun=All", "drill-1?dryRun=All", "drill-0?dryRun=All"} {
		if got := (Request{Turns: 2}).url(u, uint64(attempt)); got != "https://10.96.0.1/apis/leases/"+want {
			t.Errorf("attempt %d asks %s", attempt, got)
		}
	}
	if got := (Request{}).url(u, 7); got != u.String() {
		t.Errorf("without turns it asks %s", got)
	}
	if _, err := (&Request{Turns: -1}).complete(KindHTTP); err == nil || !strings.Contains(err.Error(), "request.turns: -1 is out of range") {
		t.Errorf("negative turns: %v", err)
	}
}

// A request that a GOAWAY left out was not processed: the sample goes on to the
// next connection, as every client does.
func TestUnservedRequestsAreNoFailures(t *testing.T) {
	l := &httpLink{wire: &wire{}}
	err := explainHTTP(t.Context(), l, errors.New("http2: Transport received Server's graceful shutdown GOAWAY"))
	if !errors.Is(err, errRetired) || !l.retired.Load() {
		t.Errorf("got %v, retired %v", err, l.retired.Load())
	}
	if err := explainHTTP(t.Context(), &httpLink{wire: &wire{}}, io.ErrUnexpectedEOF); errors.Is(err, errRetired) {
		t.Error("a broken connection counts as a goodbye")
	}
}
