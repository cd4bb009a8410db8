package bfd

import (
	"strings"
	"testing"
	"time"
)

func TestComesUpAsSoonAsBothAreThere(t *testing.T) {
	w := newWorld(1, hundred(), hundred())
	w.start()
	w.run(10 * ms)
	w.bothUp(t)
	w.run(time.Second)
	w.bothUp(t)
	if got := w.a.session.txUsed; got != 100*ms {
		t.Errorf("a sends every %v", got)
	}
	if got := w.b.session.detection(); got != 300*ms {
		t.Errorf("b detects within %v", got)
	}
	if w.a.session.poll.active || w.b.session.poll.active {
		t.Error("a Poll Sequence has no end")
	}
}

func TestIsSlowWhileNotUp(t *testing.T) {
	w := newWorld(1, hundred(), hundred())
	w.cut()
	w.start()
	w.run(60 * time.Second)
	if n := len(w.a.sent); n < 60 || n > 81 {
		t.Errorf("%d packets in a minute, 67 to 80 expected", n)
	}
	for _, f := range w.a.sent {
		if f.packet.DesiredMinTx < time.Second || f.packet.State != Down || f.packet.YourDiscr != 0 {
			t.Fatalf("%+v", f.packet)
		}
	}
}

func TestAsksForTheIntervalOfTheSlowerEnd(t *testing.T) {
	slow := Timers{DesiredMinTx: 400 * ms, RequiredMinRx: 250 * ms, DetectMult: 4}
	w := established(t, hundred(), slow)
	if got := w.a.session.agreed(); got != 250*ms {
		t.Errorf("a sends every %v, the peer receives every 250ms", got)
	}
	if got := w.b.session.agreed(); got != 400*ms {
		t.Errorf("b sends every %v", got)
	}
	if got := w.a.session.detection(); got != 4*400*ms {
		t.Errorf("a detects within %v", got)
	}
	if got := w.b.session.detection(); got != 3*250*ms {
		t.Errorf("b detects within %v", got)
	}
}

func TestPacketsAreJittered(t *testing.T) {
	w := established(t, hundred(), hundred())
	w.run(w.now + time.Minute)
	shortest, long := time.Hour, time.Duration(0)
	for i := range w.a.sent[1:] {
		d := w.a.sent[i+1].at - w.a.sent[i].at
		shortest, long = min(shortest, d), max(long, d)
	}
	if shortest < 75*ms || shortest > 77*ms || long > 91*ms || long < 88*ms {
		t.Errorf("intervals from %v to %v, 75ms to 90ms expected", shortest, long)
	}
}

func TestSilenceIsDetectedInTime(t *testing.T) {
	w := established(t, hundred(), hundred())
	w.cut()
	at := w.now
	w.run(at + time.Second)
	if len(w.a.changes) != 1 || len(w.b.changes) != 1 {
		t.Fatalf("a:%s, b:%s", w.a.states(), w.b.states())
	}
	c := w.a.changes[0]
	if took := c.At - at; took > 300*ms || took < 200*ms || c.Diag != DiagDetectionExpired || !c.Failed() {
		t.Errorf("after %v: %+v", took, c)
	}
	w.heal()
	w.run(w.now + 2*time.Second)
	w.bothUp(t)
}

func TestOneWayCutTakesBothDown(t *testing.T) {
	w := established(t, hundred(), hundred())
	w.lose = func(to *end) bool { return to == w.a }
	w.run(w.now + 10*time.Second)
	if got := w.a.states(); !strings.HasPrefix(got, " Up>Down") || strings.Contains(got, ">Up") {
		t.Errorf("a:%s", got)
	}
	if c := w.b.changes[0]; c.Diag != DiagNeighborDown || c.RemoteDiag != DiagDetectionExpired || !c.Failed() {
		t.Errorf("b: %+v", c)
	}
	if strings.Contains(w.b.states(), ">Up") {
		t.Errorf("b:%s", w.b.states())
	}
}

func TestRestartedPeerIsNoticedAtOnce(t *testing.T) {
	w := established(t, hundred(), hundred())
	w.restart(w.b, 77, hundred())
	w.run(w.now + 20*ms)
	w.bothUp(t)
	if got := w.a.states(); got != " Up>Down Down>Init Init>Up" && got != " Up>Down Down>Up" {
		t.Errorf("a:%s", got)
	}
	if got := w.a.session.peer.discr; got != 77 {
		t.Errorf("a speaks to %d", got)
	}
}

func TestAdminDownIsNoFailureOfThePeer(t *testing.T) {
	w := established(t, hundred(), hundred())
	w.do(w.b, w.b.session.AdminDown(w.now))
	if w.b.session.Released() {
		t.Error("released before the peer can know")
	}
	w.run(w.now + 5*ms)
	if c := w.a.changes[0]; c.To != Down || c.Remote != AdminDown || c.Diag != DiagNeighborDown || c.Failed() {
		t.Errorf("a: %+v", c)
	}
	if !w.b.session.Released() {
		t.Error("the peer knows, yet b is not released")
	}
	if c := w.b.changes[0]; c.Diag != DiagAdminDown || c.Failed() {
		t.Errorf("b: %+v", c)
	}
	w.run(w.now + 10*time.Second)
	if w.a.session.State() != Down || w.b.session.State() != AdminDown {
		t.Errorf("a is %v, b is %v", w.a.session.State(), w.b.session.State())
	}
	w.do(w.b, w.b.session.AdminUp(w.now))
	w.run(w.now + 2*time.Second)
	w.bothUp(t)
}

func TestAdminDownIsRepeatedWhenLost(t *testing.T) {
	w := established(t, hundred(), hundred())
	w.cut()
	w.do(w.b, w.b.session.AdminDown(w.now))
	w.heal()
	w.run(w.now + time.Second)
	if !w.b.session.Released() {
		t.Error("not released")
	}
	if w.a.session.State() != Down {
		t.Errorf("a is %v", w.a.session.State())
	}
}

func TestSlowerIntervalWaitsForTheFinal(t *testing.T) {
	w := established(t, hundred(), hundred())
	slow := Timers{DesiredMinTx: 500 * ms, RequiredMinRx: 50 * ms, DetectMult: 3}
	w.lose = func(to *end) bool { return to == w.a } // the Final
	w.do(w.a, w.a.session.SetTimers(slow))
	w.run(w.now + 150*ms)
	if s := w.a.session; s.txUsed != 100*ms || s.rxUsed != 100*ms || s.tx != 500*ms || s.rx != 50*ms {
		t.Errorf("before the Final: sends every %v (says %v), expects every %v (says %v)", s.txUsed, s.tx, s.rxUsed, s.rx)
	}
	w.heal()
	w.run(w.now + 200*ms)
	if s := w.a.session; s.txUsed != 500*ms || s.rxUsed != 50*ms || s.poll.active {
		t.Errorf("after the Final: sends every %v, expects every %v", s.txUsed, s.rxUsed)
	}
	w.run(w.now + 10*time.Second)
	if len(w.a.changes)+len(w.b.changes) != 0 {
		t.Errorf("a:%s b:%s", w.a.states(), w.b.states())
	}
}

func TestFasterIntervalIsHonouredAtOnce(t *testing.T) {
	slow := Timers{DesiredMinTx: 2 * time.Second, RequiredMinRx: 2 * time.Second, DetectMult: 3}
	w := newWorld(1, slow, slow)
	w.start()
	w.run(20 * time.Second)
	w.bothUp(t)
	w.do(w.a, w.a.session.SetTimers(hundred()))
	w.do(w.b, w.b.session.SetTimers(hundred()))
	w.run(w.now + 2100*ms)
	if got := w.a.session.agreed(); got != 100*ms {
		t.Errorf("a sends every %v", got)
	}
	at, _ := w.a.session.Next()
	if at-w.now > 100*ms {
		t.Errorf("the next packet is due in %v", at-w.now)
	}
	w.bothUp(t)
}

func TestChangeDuringAPollIsPolledAnew(t *testing.T) {
	w := established(t, hundred(), hundred())
	w.delay = func(*end) time.Duration { return 60 * ms } // a Final takes 120 ms
	w.do(w.a, w.a.session.SetTimers(Timers{DesiredMinTx: 300 * ms, RequiredMinRx: 100 * ms, DetectMult: 3}))
	polls := func(tx time.Duration) (all []frame) {
		for _, f := range w.a.sent {
			if f.packet.Poll && f.packet.DesiredMinTx == tx {
				all = append(all, f)
			}
		}
		return all
	}
	for len(polls(300*ms)) < 2 && w.now < 10*time.Second {
		w.run(w.now + ms)
	}
	w.do(w.a, w.a.session.SetTimers(Timers{DesiredMinTx: 600 * ms, RequiredMinRx: 100 * ms, DetectMult: 3}))
	for w.a.session.txUsed == 100*ms && w.now < 10*time.Second {
		w.run(w.now + ms)
	}
	if got := w.a.session.txUsed; got != 600*ms {
		t.Errorf("a Final of old values has put %v in force", got)
	}
	if anew := polls(600 * ms); len(anew) == 0 || w.now < anew[0].at+120*ms {
		t.Errorf("a is slower at %v, before an answer to what it has asked: %v", w.now, anew)
	}
}

func TestPeerThatWantsNothingIsSentNothing(t *testing.T) {
	w := established(t, hundred(), hundred())
	quiet := Packet{State: Up, DetectMult: 3, MyDiscr: 2, YourDiscr: 1, DesiredMinTx: 100 * ms}
	w.do(w.a, w.a.session.Receive(w.now, w.now, quiet))
	if at, ok := w.a.session.Next(); !ok || at != w.now+300*ms {
		t.Errorf("next at %v (%v), only the detection time expected", at-w.now, ok)
	}
	n := len(w.a.sent)
	quiet.Poll = true
	w.do(w.a, w.a.session.Receive(w.now, w.now, quiet))
	if len(w.a.sent) != n+1 || !w.a.sent[n].packet.Final || w.a.sent[n].packet.Poll {
		t.Error("a Poll is answered all the same")
	}
}

func TestPeerInDemandModeIsObeyed(t *testing.T) {
	w := established(t, hundred(), hundred())
	p := Packet{State: Up, Demand: true, DetectMult: 3, MyDiscr: 2, YourDiscr: 1, DesiredMinTx: 100 * ms, RequiredMinRx: 100 * ms}
	w.do(w.a, w.a.session.Receive(w.now, w.now, p))
	if at, _ := w.a.session.Next(); at != w.now+300*ms {
		t.Errorf("next at %v, only the detection time expected", at-w.now)
	}
	w.do(w.a, w.a.session.SetTimers(Timers{DesiredMinTx: 50 * ms, RequiredMinRx: 50 * ms, DetectMult: 3}))
	if at, _ := w.a.session.Next(); at > w.now+100*ms {
		t.Errorf("no Poll is due before %v", at-w.now)
	}
}

func TestAMissingPacketIsAskedFor(t *testing.T) {
	w := established(t, hundred(), hundred())
	periodic := 0
	// Two periodic packets in a row are lost and so would be the third.
	w.lose = func(to *end) bool {
		if to != w.a || w.b.sent[len(w.b.sent)-1].packet.Final {
			return false
		}
		periodic++
		return periodic <= 4
	}
	w.run(w.now + time.Second)
	if len(w.a.changes) != 0 {
		t.Errorf("a:%s", w.a.states())
	}
	if periodic < 5 {
		t.Errorf("only %d periodic packets", periodic)
	}
}

func TestFrozenProcessDoesNotTakeItsSleepForSilence(t *testing.T) {
	w := established(t, hundred(), Timers{DesiredMinTx: 100 * ms, RequiredMinRx: 100 * ms, DetectMult: 50})
	w.a.session.SetTimers(Timers{DesiredMinTx: 100 * ms, RequiredMinRx: 100 * ms, DetectMult: 50})
	w.run(w.now + 200*ms)
	w.a.session.peer.mult = 3
	w.b.session.want.DetectMult = 3 // a detects after 300 ms, b after 5 s
	w.run(w.now + 200*ms)
	w.a.frozen = true
	w.run(w.now + 2*time.Second)
	w.a.frozen = false
	w.run(w.now + time.Second)
	if len(w.a.changes) != 0 {
		t.Errorf("a:%s", w.a.states())
	}
}

func TestOldPacketsAreNoNewSignOfLife(t *testing.T) {
	w := established(t, hundred(), hundred())
	w.a.frozen = true
	w.run(w.now + 100*ms)
	w.cut()
	w.run(w.now + 3*time.Second)
	w.a.frozen = false
	woke := w.now
	w.run(w.now + time.Second)
	if len(w.a.changes) != 1 {
		t.Fatalf("a:%s", w.a.states())
	}
	// One interval of grace for a machine that stood still as a whole.
	if took := w.a.changes[0].At - woke; took > 101*ms {
		t.Errorf("judged %v after it woke", took)
	}
}

func TestStandingStillAsAWholeIsForgiven(t *testing.T) {
	w := established(t, hundred(), Timers{DesiredMinTx: 100 * ms, RequiredMinRx: 100 * ms, DetectMult: 3})
	// Time jumps and nothing has arrived; the peer's packets resume at once.
	jump := w.now + 5*time.Second
	w.do(w.a, w.a.session.Tick(jump))
	p := Packet{State: Up, DetectMult: 3, MyDiscr: 2, YourDiscr: 1, DesiredMinTx: 100 * ms, RequiredMinRx: 100 * ms}
	w.do(w.a, w.a.session.Receive(jump+50*ms, jump+50*ms, p))
	w.do(w.a, w.a.session.Tick(jump+200*ms))
	if len(w.a.changes) != 0 {
		t.Errorf("a:%s", w.a.states())
	}
}

func TestTimersThatMakeNoSense(t *testing.T) {
	for want, timers := range map[string]Timers{
		"desired-min-tx: 0s":        {RequiredMinRx: ms, DetectMult: 3},
		"required-min-rx: 2h0m0s":   {DesiredMinTx: ms, RequiredMinRx: 2 * time.Hour, DetectMult: 3},
		"detect-mult: 0":            {DesiredMinTx: ms, RequiredMinRx: ms},
		"desired-min-tx: 100µs is ": {DesiredMinTx: 100 * time.Microsecond, RequiredMinRx: ms, DetectMult: 3},
	} {
		if err := timers.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s…", err, want)
		}
	}
	if err := hundred().Validate(); err != nil {
		t.Error(err)
	}
}

// FuzzReceive hands an established session whatever Parse lets pass.
func FuzzReceive(f *testing.F) {
	p := Packet{State: Up, DetectMult: 3, MyDiscr: 2, YourDiscr: 1, DesiredMinTx: 100 * ms, RequiredMinRx: 100 * ms}
	f.Add(p.Append(nil), uint16(50))
	p.Poll, p.RequiredMinRx, p.DetectMult, p.DesiredMinTx = true, 0, 255, longest
	f.Add(p.Append(nil), uint16(5000))
	p.Demand, p.State = true, AdminDown
	f.Add(append(p.Append(nil), p.Append(nil)...), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, step uint16) {
		w := established(t, hundred(), hundred())
		s := w.a.session
		for now := w.now; len(b) >= size; b = b[size:] {
			p, err := Parse(b)
			if err != nil {
				continue
			}
			now += time.Duration(step) * ms
			sound(t, s.Receive(now, now, p))
			sound(t, s.Tick(now))
			if at, ok := s.Next(); ok && at <= now {
				t.Fatalf("at %v something is due at %v still", now, at)
			}
		}
	})
}

// sound checks that what is sent can be read.
func sound(t *testing.T, actions []Action) {
	for _, action := range actions {
		if send, ok := action.(Send); ok {
			if got, err := Parse(send.Packet.Append(nil)); err != nil || got != send.Packet {
				t.Fatalf("sends %+v, which reads as %+v, %v", send.Packet, got, err)
			}
		}
	}
}

func TestOldPacketsBringNothingUp(t *testing.T) {
	s := newWorld(1, hundred(), hundred()).a.session
	s.Start(0)
	p := Packet{State: Down, DetectMult: 3, MyDiscr: 2, YourDiscr: 1, DesiredMinTx: time.Second, RequiredMinRx: 100 * ms}
	s.Receive(10*time.Second, 6*time.Second, p)
	p.State = Init
	s.Receive(10*time.Second, 6500*ms, p)
	if s.State() != Down {
		t.Errorf("%v by packets that had waited for 3.5 s, with a detection time of 3 s", s.State())
	}
	s.Receive(10*time.Second, 9*time.Second, p)
	if s.State() != Up {
		t.Errorf("%v by a packet that had waited for a second", s.State())
	}
}
