package drill

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A kube-proxy that knows its own site's endpoint alone looks zoned at first.
func TestZonedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		turn := 0
		meets := func(context.Context, string) (string, error) {
			turn++
			switch at := time.Since(began); {
			case at < time.Second:
				return "", errors.New("refused")
			case at < 2*time.Second: // only its own endpoint is written
			case at < 4*time.Second:
				return []string{"a", "b", "c"}[turn%3], nil
			}
			return "a", nil
		}
		if err := zoned(t.Context(), "a", 10*time.Second, meets); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("zoned after %s, want 3 s after the others were passed over", took)
		}
		err := zoned(t.Context(), "b", 5*time.Second, meets)
		if err == nil || !strings.Contains(err.Error(), `clients of b are not sent to the server of their site within 5s, but to that of "a"`) {
			t.Errorf("a kube-proxy that knows no zones: %v", err)
		}
	})
}
