package leader

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// meshWith serves the handler and returns a client of it.
func meshWith(t *testing.T, h http.Handler) *meshPeer {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	p, err := newMeshPeer(u.Hostname(), port, creds.Files{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func TestMeshHandsRowsOnNoYoungerThanTheyAre(t *testing.T) {
	row := sampleRow()
	row.Age = 700 * time.Millisecond
	p := meshWith(t, meshHandler(func() []Row { return []Row{row} }, nil))
	rows, err := p.rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Member != row.Member || rows[0].Age < row.Age {
		t.Errorf("rows %+v", rows)
	}
}

func TestMeshKeepsTheRecordOfAMove(t *testing.T) {
	var kept Penalty
	p := meshWith(t, meshHandler(nil, func(r Penalty) bool { kept = r; return true }))
	want := Penalty{Seq: 4, Value: 1.25, From: 1, To: 2, Term: 9}
	if err := p.tell(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if kept != want {
		t.Errorf("kept %+v, want %+v", kept, want)
	}
}

func TestMeshSurvivesNonsense(t *testing.T) {
	h := meshHandler(func() []Row { return nil }, func(Penalty) bool { t.Error("nonsense was taken for a record"); return true })
	for _, tc := range []struct{ method, path, body string }{
		{http.MethodPost, penaltyPath, "{"}, {http.MethodPost, penaltyPath, `{"seq":-1}`}, {http.MethodPost, penaltyPath, `{"from":"zz"}`},
		{http.MethodGet, penaltyPath, ""}, {http.MethodPost, rowsPath, "x"}, {http.MethodGet, "/../etc/passwd", ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body)))
		if w.Code < 400 && w.Code/100 != 3 {
			t.Errorf("%s %s %q: %d", tc.method, tc.path, tc.body, w.Code)
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"not JSON":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"an error":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"without end": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("["), 1<<20)) },
	} {
		if rows, err := meshWith(t, answer).rows(t.Context()); err == nil {
			t.Errorf("%s: taken for %d rows", name, len(rows))
		}
	}
}

// One row that is not understood must not hide the others of the answer.
func TestMeshSkipsOneBadRow(t *testing.T) {
	good, err := encodeRow(sampleRow())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`{"version":1,"member":"b","seq":-1}`, `7`, `null`, `{"links":[]}`} {
		rows, err := decodeMeshRows([]byte(`{"version":1,"rows":[` + bad + `,` + string(good) + `]}`))
		if err != nil || len(rows) != 1 || rows[0].Member != sampleRow().Member {
			t.Errorf("%s: %d rows, %v", bad, len(rows), err)
		}
	}
}

// Whatever stands at a peer's address must not lead the agent elsewhere.
func TestMeshFollowsNoRedirection(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirection was followed") }))
	defer elsewhere.Close()
	p := meshWith(t, http.RedirectHandler(elsewhere.URL, http.StatusFound))
	if rows, err := p.rows(t.Context()); err == nil {
		t.Errorf("a redirection is %d rows", len(rows))
	}
}

// The agent that listens at a target's address may be that of another cluster:
// it must not say that it keeps a record it will never use.
func TestMeshRefusesRecordsOfOthers(t *testing.T) {
	p := meshWith(t, meshHandler(nil, func(p Penalty) bool { return p.To == 7 }))
	if err := p.tell(t.Context(), Penalty{Seq: 1, Value: 1, To: 8}); err == nil {
		t.Error("acknowledged")
	}
	if err := p.tell(t.Context(), Penalty{Seq: 1, Value: 1, To: 7}); err != nil {
		t.Error(err)
	}
}

// Connections beyond the bound wait, and take the place of those that close.
func TestMeshBoundsConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := bounded(inner, 2)
	accepted := make(chan net.Conn, 8)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Error("a third connection beside the two that are open")
	case <-time.After(50 * time.Millisecond):
	}
	_ = first.Close()
	_ = first.Close() // closing twice frees one place
	third := <-accepted
	_ = l.Close()
	if err := <-ended; err == nil {
		t.Error("accepts after Close")
	}
	_, _ = second.Close(), third.Close()
}

// A port that is taken must be told in one line that names the setting.
func TestMeshPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = serveMesh(context.Background(), l.Addr().String(), creds.Files{}, http.NotFoundHandler(), func() {})
	if err == nil || !strings.Contains(err.Error(), "mesh.listen") {
		t.Errorf("error %v", err)
	}
}
