package probe

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// startHTTP serves handler, over TLS with HTTP/2 when secure, and counts
// connections.
func startHTTP(t *testing.T, secure bool, handler http.HandlerFunc) (url string, material TLS, conns *atomic.Int64) {
	t.Helper()
	conns = &atomic.Int64{}
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	if secure {
		a := newAuthority(t)
		srv.TLS = a.server(t)
		srv.EnableHTTP2 = true
		srv.StartTLS()
		material = TLS{CA: a.ca}
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv.URL, material, conns
}

// httpConfig is one path of an own server. Where nothing is meant to fail the
// timeout is long, so that a busy machine does not look like an outage.
func httpConfig(url string, material TLS, mode Mode, timeout time.Duration) *Config {
	return &Config{
		Interval: 20 * time.Millisecond, Timeout: timeout, Control: Control{Off: true},
		Targets: []Target{{Name: "h", URL: url, Modes: []Mode{mode}, TLS: &material}},
	}
}

// after returns a condition: n samples were seen.
func after(n int) func(string, []Sample) bool {
	return func(_ string, samples []Sample) bool { return len(samples) >= n }
}

func TestConnectionsAreFreshOrKept(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, mode := range []Mode{ModeNew, ModeReused} {
			t.Run(fmt.Sprintf("secure=%v,%s", secure, mode), func(t *testing.T) {
				noLeaks(t)
				var proto atomic.Value
				url, material, conns := startHTTP(t, secure, func(_ http.ResponseWriter, r *http.Request) { proto.Store(r.Proto) })
				paths := follow(t, httpConfig(url, material, mode, 5*time.Second), after(20))
				samples := paths["h/http/"+string(mode)]
				want := int64(len(samples))
				if mode == ModeReused {
					want = 1
				}
				if conns.Load() != want {
					t.Errorf("%d connections for %d samples", conns.Load(), len(samples))
				}
				if s := samples[0]; s.Code != 200 || s.Local == "" || s.Peer != strings.SplitN(url, "//", 2)[1] {
					t.Errorf("sample %+v", s)
				}
				if strings.Contains(letters(paths), "x") || (proto.Load() == "HTTP/2.0") != secure {
					t.Errorf("%s over %v", letters(paths), proto.Load())
				}
			})
		}
	}
}

// A server that says goodbye in good order fails nobody: HTTP/1.1 by
// "Connection: close", HTTP/2 by GOAWAY.
func TestAnOrderlyGoodbyeIsNoFailure(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var n atomic.Int64
		url, material, conns := startHTTP(t, secure, func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1)%10 == 0 {
				w.Header().Set("Connection", "close")
			}
		})
		paths := follow(t, httpConfig(url, material, ModeReused, 5*time.Second), after(35))
		for _, s := range paths["h/http/reused"] {
			if !s.OK {
				t.Errorf("secure=%v: %s %s", secure, s.Class, s.Error)
			}
		}
		if conns.Load() < 3 {
			t.Errorf("secure=%v: %d connections", secure, conns.Load())
		}
	}
}

// A server that closes after each answer and is at times slower than the
// clock: the samples that wait for their turn move to the next connection
// unharmed.
func TestSamplesMoveOnWhenTheirConnectionIsClosedBeforeTheirTurn(t *testing.T) {
	noLeaks(t)
	var n atomic.Int64
	url, material, conns := startHTTP(t, false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		if n.Add(1)%20 == 1 {
			<-time.After(150 * time.Millisecond)
		}
	})
	paths := follow(t, httpConfig(url, material, ModeReused, 5*time.Second), after(60))
	for _, s := range paths["h/http/reused"] {
		if !s.OK {
			t.Errorf("sample %d: %s: %s", s.Seq, s.Class, s.Error)
		}
	}
	if n := len(paths["h/http/reused"]); conns.Load() < int64(n) || conns.Load() > int64(n)+2 {
		t.Errorf("%d connections for %d samples", conns.Load(), n)
	}
}

// A server that hangs and comes back: the reused path reports timeouts and
// recovers, over HTTP/1.1 on a new connection and over HTTP/2 on the old one.
func TestAReusedPathRecovers(t *testing.T) {
	for _, secure := range []bool{false, true} {
		noLeaks(t)
		var n atomic.Int64
		url, material, _ := startHTTP(t, secure, func(_ http.ResponseWriter, r *http.Request) {
			if n := n.Add(1); 10 < n && n < 15 {
				<-r.Context().Done()
			}
		})
		paths := follow(t, httpConfig(url, material, ModeReused, time.Second), func(_ string, samples []Sample) bool {
			gaps := Gaps(samples)
			_, stable := StableFrom(samples, time.Time{}, 10)
			return len(gaps) > 0 && !gaps[len(gaps)-1].Open && stable
		})
		for _, s := range paths["h/http/reused"] {
			if !s.OK && s.Class != ClassTimeout {
				t.Errorf("secure=%v: sample %d: %s: %s", secure, s.Seq, s.Class, s.Error)
			}
		}
	}
}

func TestExpectedCodes(t *testing.T) {
	url, material, _ := startHTTP(t, false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) })
	for expect, want := range map[string]bool{"": false, "200,401": true, "400-499": true, "any": true, "200": false} {
		got := probeOnce(t, Target{Name: "h", URL: url, Expect: expect, TLS: &material, Modes: []Mode{ModeNew}})
		if got[0].OK != want || got[0].Code != 401 {
			t.Errorf("expect %q: %+v", expect, got[0])
		}
	}
}

// A stream whose server stalls times out, and whose server ends it is reset
// and opened again.
func TestStreamProgress(t *testing.T) {
	for _, secure := range []bool{false, true} {
		noLeaks(t)
		var streams atomic.Int64
		url, material, _ := startHTTP(t, secure, func(w http.ResponseWriter, r *http.Request) {
			nth := streams.Add(1)
			ticker := time.NewTicker(20 * time.Millisecond)
			defer ticker.Stop()
			for i := range 1000 {
				if nth == 1 && i == 10 {
					return
				}
				if nth == 2 && i == 10 {
					stall(r)
				}
				_, _ = fmt.Fprintln(w, i)
				w.(http.Flusher).Flush()
				select {
				case <-ticker.C:
				case <-r.Context().Done():
					return
				}
			}
		})
		paths := follow(t, httpConfig(url, material, ModeStream, time.Second), func(_ string, samples []Sample) bool {
			s := Summarise("", samples)
			return s.Errors[ClassReset] > 0 && s.Errors[ClassTimeout] > 0 && samples[len(samples)-1].OK
		})
		for _, s := range paths["h/http/stream"] {
			if !s.OK && s.Class != ClassReset && s.Class != ClassTimeout {
				t.Errorf("secure=%v: %s: %s", secure, s.Class, s.Error)
			}
		}
		if n := streams.Load(); n != 2 {
			t.Errorf("secure=%v: %d streams, want 2", secure, n)
		}
	}
}

// stall holds a stream for longer than the timeout of its samples.
func stall(r *http.Request) {
	timer := time.NewTimer(1500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
