package kubeapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is several scripted servers at 127.0.0.1:1, :2 and so on.
type crowd []*script

func (c crowd) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, _ := strings.Cut(address, ":")
	return c[port[0]-'1'].listener.dial(ctx, network, address)
}

func (c crowd) config() Config {
	config := Config{Dial: c.dial}
	for i := range c {
		config.Servers = append(config.Servers, "http://127.0.0.1:"+string(rune('1'+i)))
	}
	return config
}

func (c crowd) client(t *testing.T) *Client {
	t.Helper()
	client, err := New(c.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (c crowd) asked() (n []int) {
	for _, s := range c {
		n = append(n, len(s.requests()))
	}
	return n
}

// frozen says nothing until the client gives up, which a server notices once it
// has read the body.
func frozen(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestAReadGoesToTheServerThatAnswers(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  step
		took time.Duration
	}{
		{"cut", cut, 0},
		{"frozen", frozen, attemptTimeout},
		{"stopping", refuse(http.StatusServiceUnavailable, "ServiceUnavailable"), 0},
		{"slow etcd", refuse(http.StatusGatewayTimeout, "Timeout"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := crowd{newScript(t, c.bad), newScript(t, c.bad), newScript(t, send("good"), send("again"))}
				client := servers.client(t)
				start := time.Now()
				got, err := client.Get(t.Context(), "/x", nil)
				if err != nil || string(got) != "good" {
					t.Fatalf("%s, %v", got, err)
				}
				if took := time.Since(start); took != 2*c.took {
					t.Errorf("took %v, want %v", took, 2*c.took)
				}
				if got, err := client.Get(t.Context(), "/x", nil); err != nil || string(got) != "again" || servers.asked()[0] != 1 {
					t.Errorf("the second: %s, %v; asked %v", got, err, servers.asked())
				}
			})
		})
	}
}

func TestARefusalKeepsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []step
		for _, code := range []int{401, 403, 404, 409, 410, 422, 429} {
			steps = append(steps, refuse(code, "No"))
		}
		servers := crowd{newScript(t, steps...), newScript(t)}
		client := servers.client(t)
		for range steps {
			if _, err := client.Get(t.Context(), "/x", nil); Code(err) < 400 || Code(err) > 429 {
				t.Errorf("got %v", err)
			}
		}
		if n := servers.asked()[1]; n != 0 {
			t.Errorf("the second server was asked %d times", n)
		}
	})
}

// A write that may have arrived is not sent twice; the next one goes elsewhere.
func TestAWriteIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := crowd{newScript(t, frozen), newScript(t, send("good"))}
		client := servers.client(t)
		if _, err := client.Put(t.Context(), "/x", []byte("{}")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 2.5s") {
			t.Errorf("first: %v", err)
		}
		if got, err := client.Put(t.Context(), "/x", []byte("{}")); err != nil || string(got) != "good" {
			t.Errorf("second: %s, %v", got, err)
		}
		if n := servers.asked(); n[0] != 1 || n[1] != 1 {
			t.Errorf("asked %v", n)
		}
	})
}

func TestAWriteThatWasNeverSentGoesToTheNextServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := crowd{newScript(t), newScript(t, send("good"))}
		_ = servers[0].listener.Close()
		if got, err := servers.client(t).Create(t.Context(), "/x", []byte("{}")); err != nil || string(got) != "good" {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func TestNoServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := crowd{newScript(t, frozen), newScript(t, refuse(503, "ServiceUnavailable"))}
		_, err := servers.client(t).Get(t.Context(), "/x", nil)
		if err == nil || err.Error() != "asked 2 servers of 2: get /x: 503 Service Unavailable: no such luck" || Code(err) != 503 {
			t.Errorf("got %v", err)
		}
	})
}

func TestACallerWhoGivesUpProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := crowd{newScript(t, frozen, send("good")), newScript(t)}
		client := servers.client(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := client.Get(ctx, "/x", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if got, err := client.Get(t.Context(), "/x", nil); err != nil || string(got) != "good" {
			t.Errorf("%s, %v", got, err)
		}
		if n := servers.asked()[1]; n != 0 {
			t.Errorf("the second server was asked %d times", n)
		}
	})
}

// turn is the server that a client asks now.
func (c crowd) turn(client *Client) int { at, _ := client.turn.now(); return at }

// A bound that is shorter than a slow commit takes, as a short Lease has, proves
// nothing while the server answers other questions.
func TestACallersDeadlineIsNotHeldAgainstAServerThatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := crowd{newScript(t), newScript(t)}
		for range 20 {
			slow[0].steps = append(slow[0].steps, frozen, send("read"))
		}
		client := slow.client(t)
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := client.Patch(ctx, "/lease", []byte("{}")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("patch: %v", err)
			}
			cancel()
			if got, err := client.Get(t.Context(), "/lease", nil); err != nil || string(got) != "read" {
				t.Fatalf("get: %s, %v", got, err)
			}
		}
		if n := slow.asked()[1]; n != 0 || client.failed.Load() {
			t.Errorf("the second server was asked %d times", n)
		}
	})
}

// A frozen server is left all the same, whatever bounds its callers have, once
// they have waited as long as an attempt.
func TestAFrozenServerIsLeftByCallersWithShortBounds(t *testing.T) {
	for _, bound := range []time.Duration{100 * time.Millisecond, time.Second, attemptTimeout} {
		synctest.Test(t, func(t *testing.T) {
			servers := crowd{newScript(t), newScript(t, send("good"))}
			for range 50 {
				servers[0].steps = append(servers[0].steps, frozen)
			}
			client := servers.client(t)
			start := time.Now()
			for servers.turn(client) == 0 && time.Since(start) < time.Minute {
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				_, _ = client.Patch(ctx, "/lease", []byte("{}"))
				cancel()
			}
			if took := time.Since(start); took > attemptTimeout+bound || took < attemptTimeout*9/10 {
				t.Errorf("bound %v: left after %v", bound, took)
			}
		})
	}
}

// A webhook that fails gives 500 behind every server: reads go on, and watches
// are not closed for it.
func TestAWebhookThatFailsMovesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := refuse(http.StatusInternalServerError, "InternalError")
		servers := crowd{newScript(t), newScript(t)}
		servers[0].steps = slices.Repeat([]step{fails}, 10) // a burst of Events
		for range 30 {                                      // and writes of one object for ever
			servers[0].steps = append(servers[0].steps, fails, send("{}"))
		}
		client := servers.client(t)
		for range 10 {
			if _, err := client.Create(t.Context(), "/events", []byte("{}")); Code(err) != 500 {
				t.Fatal(err)
			}
		}
		for range 30 {
			if _, err := client.Patch(t.Context(), "/x", []byte("{}")); Code(err) != 500 {
				t.Fatal(err)
			}
			if _, err := client.Patch(t.Context(), "/lease", []byte("{}")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := servers.asked()[1]; n != 0 || client.failed.Load() {
			t.Errorf("the second server was asked %d times", n)
		}
	})
}

// A server without etcd gives 500 to everything: each read is answered by
// another at once, and soon nobody asks it any more.
func TestAServerWithoutEtcdIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := crowd{newScript(t), newScript(t)}
		servers[0].steps = slices.Repeat([]step{refuse(http.StatusInternalServerError, "InternalError")}, 100)
		servers[1].steps = slices.Repeat([]step{send("good")}, 100)
		client := servers.client(t)
		start := time.Now()
		for servers.turn(client) == 0 && time.Since(start) < time.Minute {
			if got, err := client.Get(t.Context(), "/x", nil); err != nil || string(got) != "good" {
				t.Fatalf("%s, %v", got, err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("left after %v", took)
		}
	})
}

// A frozen server's watches say nothing; a request that finds it dead ends them.
func TestWatchesLeaveAServerThatFailsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := crowd{
			newScript(t, send(list("5", "a")), hold, frozen),
			newScript(t, send("{}"), sendAndHold(event("ADDED", "b", "6"))),
		}
		config := servers.config()
		cluster := &Cluster{turn: newTurn(2)}
		cluster.Dial = servers.dial
		connect := func() (*Client, error) { c := config; c.turn = cluster.turn; return New(c) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var at time.Duration
		start := time.Now()
		f := Follower[object]{
			Connect: connect, Path: "/apis/x", Replace: func([]object) {},
			Apply: func(Event[object]) { at = time.Since(start); cancel() },
			Report: func(err error) {
				if err != nil {
					t.Errorf("reported %v", err)
				}
			},
		}
		time.AfterFunc(10*time.Second, func() {
			client, err := connect()
			if err == nil {
				defer client.Close()
				_, err = client.Get(t.Context(), "/beat", nil)
			}
			if err != nil {
				t.Error(err)
			}
		})
		_ = f.Run(ctx)
		if at < 12*time.Second || at > 14*time.Second {
			t.Errorf("the change was seen after %v", at)
		}
		expect(t, "asked of the second", servers[1].requests(), "list", "watch 5")
	})
}

func TestASilentWatchMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := crowd{newScript(t, send(list("5", "a")), hold), newScript(t, sendAndHold(event("ADDED", "b", "6")))}
		config := servers.config()
		config.turn = newTurn(2)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		seen := false
		f := Follower[object]{
			Connect: func() (*Client, error) { return New(config) }, Path: "/apis/x",
			Replace: func([]object) {}, Apply: func(Event[object]) { seen = true; cancel() }, Report: func(error) {},
		}
		_ = f.Run(ctx)
		if !seen {
			t.Error("no change seen")
		}
	})
}

func TestFollowAsksForMetadataOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accepted []string
		s := newScript(t, func(w http.ResponseWriter, r *http.Request) {
			accepted = append(accepted, r.Header.Get("Accept"))
			send(list("5"))(w, r)
		}, func(w http.ResponseWriter, r *http.Request) {
			accepted = append(accepted, r.Header.Get("Accept"))
			hold(w, r)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f := Follower[object]{Connect: s.client, Path: "/x", Metadata: true, Replace: func([]object) {}, Report: func(error) {}}
		_ = f.Run(ctx)
		expect(t, "accepted", accepted, listMetadata, watchMetadata)
	})
}
