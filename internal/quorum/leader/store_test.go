package leader

import (
	"log/slog"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

func TestStoreTakesWhatAgentsWrite(t *testing.T) {
	row, err := encodeRow(sampleRow())
	if err != nil {
		t.Fatal(err)
	}
	s := newStore("/p", etcd.Access{}, slog.New(slog.DiscardHandler))
	for _, tc := range []struct {
		name, key, value string
		rows, records    int
	}{
		{"a row", "/p/members/a", string(row), 1, 0},
		{"a row under another's key", "/p/members/b", string(row), 0, 0},
		{"a row below the key", "/p/members/a/x", string(row), 0, 0},
		{"not JSON", "/p/members/a", "garbage", 0, 0},
		{"a record", "/p/decision", `{"seq":3,"penalty":1,"from":"a","to":"c","term":4}`, 0, 1},
		{"no record", "/p/decision", "garbage", 0, 0},
		{"a negative record", "/p/decision", `{"seq":-3}`, 0, 0},
		{"a record that none can follow", "/p/decision", `{"seq":18446744073709551615}`, 0, 0},
		{"another key", "/p/other", string(row), 0, 0},
	} {
		rows, records := 0, 0
		s.take([]byte(tc.key), []byte(tc.value), 0, func(Row) { rows++ }, func(Penalty) { records++ })
		if rows != tc.rows || records != tc.records {
			t.Errorf("%s: %d rows and %d records, want %d and %d", tc.name, rows, records, tc.rows, tc.records)
		}
	}
}
