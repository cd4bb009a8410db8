package drill

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

func TestView(t *testing.T) {
	type step struct {
		id   uint64
		s    sight
		want string
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"partial split and a move", []step{
			{1, sight{leader: 1, term: 2}, ""},
			{2, sight{leader: 1, term: 2}, ""},
			{3, sight{leader: 1, term: 2}, ""},
			{2, sight{term: 2}, "no-leader b1"},
			{2, sight{term: 2}, ""},
			{3, sight{leader: 3, term: 3}, "leader-changed a1>c1"},
			{1, sight{leader: 3, term: 3}, ""},
			{2, sight{leader: 3, term: 3}, "leader-back b1"},
		}},
		{"a stale member does not bring the old leader back", []step{
			{1, sight{leader: 1, term: 2}, ""},
			{2, sight{leader: 2, term: 5}, "leader-changed a1>b1"},
			{3, sight{leader: 1, term: 2}, ""},
		}},
		{"a killed member", []step{
			{1, sight{leader: 1, term: 2}, ""},
			{2, sight{leader: 1, term: 2}, ""},
			{2, sight{silent: true}, "member-silent b1"},
			{2, sight{silent: true}, ""},
			{2, sight{leader: 1, term: 2}, "member-answers b1"},
		}},
		{"a restarted member without leader", []step{
			{2, sight{leader: 1, term: 2}, ""},
			{2, sight{silent: true}, "member-silent b1"},
			{2, sight{term: 2}, "member-answers b1 no-leader b1"},
			{2, sight{leader: 1, term: 2}, "leader-back b1"},
		}},
		{"re-election of the same leader is no change", []step{
			{1, sight{leader: 1, term: 2}, ""},
			{1, sight{leader: 1, term: 3}, ""},
		}},
	} {
		v := newView("main")
		v.nameOf = map[uint64]string{1: "a1", 2: "b1", 3: "c1"}
		for i, s := range tc.steps {
			var words []string
			for _, e := range v.see(s.id, s.s) {
				what := e.Keys["member"]
				if e.Kind == record.KindLeader {
					what = e.Keys["from"] + ">" + e.Keys["to"]
				}
				words = append(words, e.Kind+" "+what)
			}
			if got := strings.Join(words, " "); got != s.want {
				t.Errorf("%s, step %d: %q, want %q", tc.name, i+1, got, s.want)
			}
		}
	}
}

func TestAgentLine(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
	p := scenario.Process{Cluster: "main", Site: "a", Agent: true}
	for _, tc := range []struct {
		name, line, kind, message string
		at                        time.Time
	}{
		{"a move", `{"time":"2026-03-01T12:00:00.9Z","level":"INFO","msg":"leadership moved","from":"a1","to":"c1","took_ms":103.5,"reason":"b is lost"}`,
			record.KindMove, "leadership moved from a1 to c1: b is lost", now.Add(-100 * time.Millisecond)},
		{"a failure", `{"time":"2026-03-01T12:00:00.9Z","msg":"move failed","from":"a1","to":"c1","error":"deadline exceeded"}`,
			record.KindMoveFailed, "move failed from a1 to c1: deadline exceeded", now.Add(-100 * time.Millisecond)},
		{"a clock elsewhere", `{"time":"2020-01-01T00:00:00Z","msg":"leadership moved","from":"a1","to":"c1"}`,
			record.KindMove, "leadership moved from a1 to c1", now},
		{"other news", `{"msg":"member up"}`, "", "", time.Time{}},
		{"not JSON", `panic: oh`, "", "", time.Time{}},
	} {
		e, ok := parseAgentLine(p, []byte(tc.line), now)
		if ok != (tc.kind != "") || e.Kind != tc.kind || e.Message != tc.message || !e.At.Equal(tc.at) {
			t.Errorf("%s: %v %+v, want %s %q at %s", tc.name, ok, e, tc.kind, tc.message, tc.at)
		}
	}
	e, _ := parseAgentLine(p, []byte(`{"msg":"leadership moved","from":"a1","to":"c1","took_ms":103.5}`), now)
	if e.Keys["took_ms"] != "103.5" || e.Cluster != "main" || e.Source != "agent/a" {
		t.Errorf("event %+v", e)
	}
}

func FuzzAgentLine(f *testing.F) {
	f.Add([]byte(`{"msg":"leadership moved","from":"a1","to":"c1","took_ms":103}`))
	f.Add([]byte(`{"msg":"move failed","time":5,"error":{"a":[1]}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, ok := parseAgentLine(scenario.Process{Cluster: "main", Site: "a", Agent: true}, line, time.Unix(0, 0))
		if ok && e.Kind == "" {
			t.Error("an event without a kind")
		}
	})
}

func TestLines(t *testing.T) {
	var got []string
	l := &lines{each: func(b []byte) { got = append(got, string(b)) }}
	for _, part := range []string{"on", "e\ntwo\nth", "", "ree\n", "rest"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", part, n, err)
		}
	}
	if text := strings.Join(got, "|"); text != "one|two|three" {
		t.Errorf("lines %q", text)
	}
}

func TestCountdown(t *testing.T) {
	for _, tc := range []struct {
		length, passed time.Duration
		want           string
	}{
		{20 * time.Second, 0, "hold, 20 s left"},
		{20 * time.Second, 100 * time.Millisecond, "hold, 20 s left"},
		{20 * time.Second, 19500 * time.Millisecond, "hold, 1 s left"},
		{20 * time.Second, 25 * time.Second, "hold, 0 s left"},
		{0, 3 * time.Second, "hold, 3 s"},
	} {
		if got := countdown("hold", tc.length, tc.passed); got != tc.want {
			t.Errorf("countdown(%s, %s) = %q, want %q", tc.length, tc.passed, got, tc.want)
		}
	}
}
