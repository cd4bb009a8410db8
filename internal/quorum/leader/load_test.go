package leader

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// k3s has no /metrics on the client port.
func TestLoadIsReadWhereItIs(t *testing.T) {
	without := httptest.NewServer(http.NotFoundHandler())
	defer without.Close()
	asked := 0
	with := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write([]byte("etcd_server_proposals_pending 7\n"))
	}))
	defer with.Close()
	s, err := newLoadSource([]string{without.URL, with.URL}, creds.Files{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		if load, err := s.Read(t.Context()); err != nil || load.Pending != 7 {
			t.Fatalf("load %+v, %v", load, err)
		}
	}
	if asked != 2 || s.at != 1 {
		t.Errorf("asked %d times, stays with page %d", asked, s.at)
	}
	with.Close()
	if _, err := s.Read(t.Context()); err == nil {
		t.Error("no page answers, and no error")
	}
}
