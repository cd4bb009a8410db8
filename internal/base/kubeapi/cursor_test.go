package kubeapi

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	var c cursor
	broken := errors.New("reset")
	for i, want := range []time.Duration{200, 400, 800, 1600, 3200, 5000, 5000} {
		if got := c.wait(broken); got != want*time.Millisecond {
			t.Errorf("wait %d: %v", i, got)
		}
	}
	for _, e := range []struct {
		err  *StatusError
		want time.Duration
	}{
		{&StatusError{Code: http.StatusForbidden}, 30 * time.Second},
		{&StatusError{Code: http.StatusTooManyRequests, RetryAfter: 17 * time.Second}, 17 * time.Second},
		{&StatusError{Code: http.StatusTooManyRequests}, 5 * time.Second},
	} {
		if got := c.wait(e.err); got != e.want {
			t.Errorf("%v: %v, want %v", e.err, got, e.want)
		}
	}
	c.gotEvent("7")
	if got := c.wait(broken); got != minWait {
		t.Errorf("after an event: %v", got)
	}
}

// TestCursorAlwaysComesBack feeds random outcomes and then a server that
// works: from any state, a complete list is asked for and a watch follows, and
// no failure is followed by an attempt at once.
func TestCursorAlwaysComesBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	failures := []error{
		errors.New("reset"), ErrTooLarge, &StatusError{Code: 410}, &StatusError{Code: 504, Reason: reasonTooLarge},
		&StatusError{Code: 500}, &StatusError{Code: 429, RetryAfter: time.Second}, &StatusError{Code: 403},
	}
	for range 2000 {
		var c cursor
		for range r.IntN(30) {
			err := failures[r.IntN(len(failures))]
			var wait time.Duration
			switch {
			case !c.listed && r.IntN(3) > 0:
				wait = c.listFailed(err)
			case !c.listed:
				c.gotList("5")
				continue
			case r.IntN(3) == 0:
				c.gotEvent("6")
				continue
			default:
				wait = c.watchEnded(err, time.Duration(r.IntN(3000))*time.Millisecond, r.IntN(2))
			}
			if wait < minWait {
				t.Fatalf("waits %v after %v; seed %d", wait, err, seed)
			}
		}
		c.watchEnded(&StatusError{Code: 500}, 0, 0)
		// Now the server can serve its newest list only: whatever was asked
		// before, few attempts lead there.
		for tries := 0; !c.listed; tries++ {
			if version, _, _ := c.query(); version == "" || version == "0" {
				c.gotList("9")
			} else if c.listFailed(&StatusError{Code: 410}); tries > 2 {
				t.Fatalf("still asks for %q; seed %d", version, seed)
			}
		}
		if c.version != "9" || c.exact || c.failures != 0 {
			t.Fatalf("%+v after a list; seed %d", c, seed)
		}
	}
}
