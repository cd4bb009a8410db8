package delay

import (
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// port is a packet device in memory: what is sent on in can be read, what is
// written appears on out with the time of its arrival.
type port struct {
	in  chan []byte
	out chan arrival
}

type arrival struct {
	data string
	at   time.Time
}

func (p port) Read(buf []byte) (int, error) {
	data, ok := <-p.in
	if !ok {
		return 0, io.EOF
	}
	return copy(buf, data), nil
}

func (p port) Write(data []byte) (int, error) {
	p.out <- arrival{string(data), time.Now()}
	return len(data), nil
}

func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := port{make(chan []byte), make(chan arrival, 100)}
		l := NewLine(p, p, NewTimer(), Profile{Delay: 20 * time.Millisecond})
		ended := make(chan error, 2)
		go func() { ended <- l.Receive() }()
		go func() { ended <- l.Send() }()
		start := time.Now()
		send := func(s string, after time.Duration) {
			time.Sleep(after) // synthetic time
			p.in <- []byte(s)
			synctest.Wait()
		}
		send("one", 0)
		send("two", 5*time.Millisecond)
		l.Set(Profile{Delay: time.Millisecond}) // must not overtake
		send("three", 5*time.Millisecond)
		send("four", 30*time.Millisecond)
		close(p.in)
		if err := <-ended; err == nil {
			t.Error("the receiver ended without saying why")
		}
		if err := <-ended; err != nil {
			t.Errorf("the sender ended with %v", err)
		}
		for _, want := range []struct {
			data string
			at   time.Duration
		}{{"one", 20 * time.Millisecond}, {"two", 25 * time.Millisecond}, {"three", 25 * time.Millisecond}, {"four", 41 * time.Millisecond}} {
			got := <-p.out
			if got.data != want.data || got.at.Sub(start) != want.at {
				t.Errorf("%s came after %v, want %s after %v", got.data, got.at.Sub(start), want.data, want.at)
			}
		}
	})
}

func TestLineEndsWithItsAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := port{make(chan []byte), make(chan arrival, 1)}
		alarm := NewTimer()
		l := NewLine(p, p, alarm, Profile{Delay: time.Hour})
		ended := make(chan error, 1)
		go func() { _ = l.Receive() }()
		go func() { ended <- l.Send() }()
		p.in <- []byte("late")
		synctest.Wait()
		if err := alarm.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("the sender ended without saying why")
		}
		close(p.in)
	})
}

func TestTimerFd(t *testing.T) {
	a, err := newTimerFd()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{-time.Second, 0, time.Microsecond, 3 * time.Millisecond} {
		at := time.Now().Add(d)
		if err := a.Until(at); err != nil {
			t.Fatal(err)
		}
		if time.Now().Before(at) {
			t.Errorf("woke before %v had passed", d)
		}
	}
	go func() { _ = a.Close() }()
	if err := a.Until(time.Now().Add(time.Hour)); err == nil || os.IsTimeout(err) {
		t.Errorf("a closed alarm said %v", err)
	}
}
