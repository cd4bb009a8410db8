package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// follow runs a Follower over the script for d of the bubble's time and
// returns what it told.
func follow(t *testing.T, s *script, d time.Duration) (told []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	f := Follower[object]{
		Connect: s.client, Path: "/apis/x", Selector: "a=b",
		Replace: func(items []object) {
			text := "replace"
			for _, i := range items {
				text += " " + i.Metadata.Name
			}
			told = append(told, text)
		},
		Apply: func(e Event[object]) {
			text := "put "
			if e.Deleted {
				text = "delete "
			}
			told = append(told, text+e.Object.Metadata.Name)
		},
		Report: func(err error) {
			if err != nil {
				told = append(told, "error: "+err.Error())
			}
		},
	}
	if err := f.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run returned %v", err)
	}
	return told
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFollowListsThenWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t,
			send(list("5", "a", "b")),
			sendAndHold(event("MODIFIED", "a", "6"), event("BOOKMARK", "", "9"), event("DELETED", "b", "10"), event("ADDED", "c", "11")))
		expect(t, "told", follow(t, s, time.Minute), "replace a b", "put a", "delete b", "put c")
		expect(t, "asked", s.requests(), "list 0", "watch 5")
	})
}

func TestFollowContinuesAWatchThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t,
			send(list("5", "a")),
			send(event("ADDED", "b", "6")),   // ended in order: at once again
			send(event("BOOKMARK", "", "8")), // a bookmark counts
			func(w http.ResponseWriter, r *http.Request) { // cut in the middle
				send(event("ADDED", "c", "9"), `{"type":"ADD`)(w, r)
				cut(w, r)
			},
			cut) // before an answer
		expect(t, "told", follow(t, s, time.Minute),
			"replace a", "put b", "put c", "error: watch /apis/x: unexpected EOF", "error: get /apis/x at 127.0.0.1:8001: EOF")
		expect(t, "asked", s.requests(), "list 0", "watch 5", "watch 6", "watch 8", "watch 9", "watch 9")
	})
}

func TestFollowListsAgainWhenTheVersionExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 5 (9)"}}`
		s := newScript(t,
			send(list("5", "a")), send(gone), // inside the stream
			send(list("20", "b")), refuse(http.StatusGone, "Gone"), // as the answer
			send(list("30", "c")))
		expect(t, "told", follow(t, s, time.Minute), "replace a", "replace b", "replace c")
		expect(t, "asked", s.requests(), "list 0", "watch 5", "list limit 500", "watch 20", "list limit 500", "watch 30")
	})
}

// A server restored from a backup, or one cut off, lags behind the version
// that another gave.
func TestFollowSurvivesAServerThatLagsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lag := func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = w.Write([]byte(`{"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version","details":{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}}`))
		}
		s := newScript(t, send(list("500", "a")), refuse(http.StatusInternalServerError, "InternalError"), lag, send(list("7", "b")))
		told := follow(t, s, time.Minute)
		expect(t, "asked", s.requests(), "list 0", "watch 500", "list NotOlderThan 500", "list limit 500", "watch 7")
		if told[len(told)-1] != "replace b" {
			t.Errorf("told %q", told)
		}
	})
}

func TestFollowWaitsForAServerThatIsNotThereYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, cut, refuse(500, "InternalError"), send("<html>proxy page with a secret</html>"), send("{}"), send(list("5", "a")))
		told := follow(t, s, time.Minute)
		expect(t, "asked", s.requests(), "list 0", "list 0", "list 0", "list 0", "list 0", "watch 5")
		expect(
			t, "told", told,
			"error: get /apis/x at 127.0.0.1:8001: EOF",
			"error: get /apis/x: 500 Internal Server Error: no such luck",
			"error: get /apis/x: answer is not the expected JSON; is this a Kubernetes API?",
			"error: get /apis/x: answer has no resourceVersion; is this a Kubernetes API?",
			"replace a",
		)
	})
}

func TestFollowAsksSeldomWhereItMayNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []step
		for range 100 {
			steps = append(steps, refuse(http.StatusForbidden, "Forbidden"))
		}
		s := newScript(t, steps...)
		follow(t, s, 5*time.Minute)
		if n := len(s.requests()); n < 6 || n > 21 { // 30 s, of which jitter makes 15 to 45
			t.Errorf("asked %d times in 5 minutes", n)
		}
	})
}

func TestFollowNeverSpins(t *testing.T) {
	for _, c := range []struct {
		name string
		step step
	}{
		{"watch ends at once", send()},
		{"watch is cut", cut},
		{"events are not JSON", send("nonsense")},
		{"unknown type", send(`{"type":"SURPRISE","object":{}}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, send(list("5", "a")))
				s.steps = append(s.steps, slices.Repeat([]step{c.step}, 100)...)
				follow(t, s, time.Minute)
				if n := len(s.requests()); n < 8 || n > 40 { // up to 5 s, at least 2.5 s
					t.Errorf("asked %d times in a minute: %v", n, s.requests())
				}
			})
		})
	}
}

// A connection whose other end froze delivers nothing and is not closed.
func TestFollowGivesUpASilentWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, send(list("5", "a")), hold, sendAndHold(event("ADDED", "b", "6")))
		start := time.Now()
		told := follow(t, s, silence+10*time.Second)
		if len(told) != 3 || !strings.Contains(told[1], "no event or bookmark for 1m30s") || told[2] != "put b" {
			t.Errorf("told %q after %v", told, time.Since(start))
		}
	})
}

func TestFollowConnectsAnewAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, refuse(http.StatusUnauthorized, "Unauthorized"), send(list("5", "a")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		connects, reports := 0, []error{}
		f := Follower[object]{
			Connect: func() (*Client, error) {
				if connects++; connects == 1 {
					return nil, errors.New("kubeconfig: not there")
				}
				return s.client()
			},
			Path: "/apis/x", Replace: func([]object) { cancel() }, Report: func(err error) { reports = append(reports, err) },
		}
		_ = f.Run(ctx)
		if connects != 3 || len(reports) != 3 || Code(reports[1]) != http.StatusUnauthorized || reports[2] != nil {
			t.Errorf("connected %d times; reports %v", connects, reports)
		}
	})
}

// tooLarge answers with more than is read.
func tooLarge(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(make([]byte, maxBody+1<<20))
}

// pageOf is a page of a list, with more behind it.
func pageOf(version, next string, names ...string) step {
	return send(strings.Replace(list(version, names...), `"resourceVersion"`, fmt.Sprintf(`"continue":%q,"resourceVersion"`, next), 1))
}

// A collection that is larger than an answer may be is read in pages that fit,
// and stays so: after it expired, and when the watch has to begin anew.
func TestFollowReadsALargeListInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t,
			tooLarge, tooLarge, pageOf("5", "t1", "a", "b"), tooLarge, // the second page does not fit
			pageOf("6", "t2", "a"), pageOf("6", "t3", "b"), send(list("6", "c")),
			sendAndHold(event("ADDED", "d", "7")))
		expect(t, "told", follow(t, s, time.Minute), "replace a b c", "put d")
		expect(
			t, "asked", s.requests(),
			"list 0", "list limit 500", "list limit 125", "list limit 125 continue t1",
			"list limit 31", "list limit 31 continue t2", "list limit 31 continue t3", "watch 6",
		)
	})
	synctest.Test(t, func(t *testing.T) {
		gone := refuse(http.StatusGone, "Expired") // of a page's token as well
		s := newScript(t, tooLarge, pageOf("5", "t", "a"), gone, pageOf("6", "u", "a"), send(list("6", "b")), gone, send(list("9", "c")))
		told := follow(t, s, time.Minute)
		if told[len(told)-1] != "replace c" {
			t.Errorf("told %q", told)
		}
		expect(t, "asked", s.requests(),
			"list 0", "list limit 500", "list limit 500 continue t", "list limit 500", "list limit 500 continue u", "watch 6", "list limit 500", "watch 9")
	})
}

// Pages without end, or one object that is too large, are errors like others.
func TestFollowGivesUpOnAListWithoutEnd(t *testing.T) {
	for name, endless := range map[string]step{"empty pages": pageOf("5", "t"), "too large alone": tooLarge} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, slices.Repeat([]step{endless}, 200)...)
				told := follow(t, s, time.Minute)
				if n := len(s.requests()); n > 60 || len(told) == 0 || !strings.HasPrefix(told[0], "error: get /apis/x: ") {
					t.Errorf("asked %d times, told %.300q", n, told)
				}
			})
		})
	}
}
