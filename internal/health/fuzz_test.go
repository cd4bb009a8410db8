package health

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

// FuzzFailingChecks: whatever a server says, a reason is one line of bounded
// length, and shutting down is only what exactly one check says.
func FuzzFailingChecks(f *testing.F) {
	for _, seed := range []string{shutdownOnly, etcdAndMore, "", "[-]", "[-] failed", "[-]shutdown", "[-]shutdown failed\n[-]shutdown failed: twice\n",
		"[-]a\x00b failed\r\n[-]\xff", strings.Repeat("[-]x"+strings.Repeat("y", 100)+" failed\n", 20)} {
		f.Add([]byte(seed))
	}
	q := &readyz{}
	f.Fuzz(func(t *testing.T, body []byte) {
		names := failingChecks(body)
		for _, n := range names {
			if n == "" || strings.ContainsAny(n, " \n\r") || !bytes.Contains(body, []byte("[-]")) {
				t.Errorf("name %q", n)
			}
		}
		r := q.grade(answer{code: 500, body: body})
		if (r.Grade == ShuttingDown) != (len(names) == 1 && names[0] == "shutdown") {
			t.Errorf("%s for %q", r.Grade, names)
		}
		if len(r.Reason) > 300 || strings.ContainsAny(r.Reason, "\n\r\x00") || r.Reason == "" {
			t.Errorf("reason %q", r.Reason)
		}
	})
}

// FuzzEtcdHealth: nonsense is never Ready.
func FuzzEtcdHealth(f *testing.F) {
	for _, seed := range []string{`{"health":"true","reason":""}`, `{"health":"false","reason":"RAFT NO LEADER"}` + "\n", `{"health":"false","reason":"ALARM NOSPACE"}`,
		`{"health":true}`, `[]`, `{"health":"true"}x`, ""} {
		f.Add(200, []byte(seed))
		f.Add(503, []byte(seed))
	}
	q := &etcd{}
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		r := q.grade(t.Context(), answer{code: code, body: body})
		if r.Grade == Ready && (code != 200 || !bytes.Contains(body, []byte("true"))) {
			t.Errorf("ready for %d %q", code, body)
		}
		if r.Grade != Ready && (r.Reason == "" || strings.ContainsAny(r.Reason, "\n\r")) {
			t.Errorf("reason %q", r.Reason)
		}
	})
}

// FuzzAnswer: whatever comes over the wire ends, and keeps within its bounds.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nok", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "SSH-2.0\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &wire{}
		w.limit.R, w.limit.N = bytes.NewReader(data), maxAnswer
		w.in = bufio.NewReaderSize(&w.limit, bufferSize)
		a, _ := w.take()
		if len(a.body) > maxBody || a.err == nil && (a.code < 0 || a.code > 999) {
			t.Errorf("code %d with %d bytes, %v", a.code, len(a.body), a.err)
		}
	})
}
