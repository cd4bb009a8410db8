package robustness

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// messenger carries what one site asks the arbiter, and what it answers; well or badly.
type messenger struct {
	url, arbiter string
	record       string // path of the record
	swapped      chan<- struct{}

	mu     sync.Mutex
	manner manner
	delay  time.Duration
	lie    lie
	last   answer // the answer to the last read
	before answer // the one to a read before, of another version
}

// manner is how a messenger does until told otherwise.
type manner string

const (
	honest  manner = "honest"
	slow    manner = "slow"    // answers come late
	lost    manner = "lost"    // requests do not arrive
	refused manner = "refused" // credentials are not taken
	broken  manner = "broken"  // the arbiter answers that it cannot
)

// lie is what a messenger does once, at the next opportunity.
type lie string

const (
	truth      lie = ""
	swallowed  lie = "swallowed"   // the change is made, its answer does not come
	forgedLoss lie = "forged-loss" // the change is made, the answer is that another came first
	past       lie = "past"        // a read is answered with the record before
	nothing    lie = "nothing"     // a read is answered with: there is none
	garbled    lie = "garbled"     // a read is answered with what is no record
)

type answer struct {
	status int
	header http.Header
	body   []byte
}

func newMessenger(t *testing.T, address, arbiter, record string, swapped chan<- struct{}) *messenger {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	m := &messenger{url: "http://" + address + record, arbiter: arbiter, record: record, swapped: swapped, manner: honest}
	server := &http.Server{Handler: m}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Close()
		serving.Wait()
	})
	return m
}

func (m *messenger) behave(how manner, delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.manner, m.delay = how, delay
}

func (m *messenger) lieOnce(l lie) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lie = l
}

func (m *messenger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	how, delay := m.manner, m.delay
	m.mu.Unlock()
	switch how {
	case lost:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case slow:
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	case refused:
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	case broken:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	got, err := m.forward(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if r.URL.Path == m.record {
		got = m.twist(r.Method, got)
	}
	got.write(w)
}

func (m *messenger) forward(r *http.Request) (answer, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return answer{}, err
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, m.arbiter+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	out.Header = r.Header.Clone()
	in, err := http.DefaultClient.Do(out)
	if err != nil {
		return answer{}, err
	}
	defer in.Body.Close()
	got, err := io.ReadAll(in.Body)
	return answer{in.StatusCode, in.Header, got}, err
}

// twist is the place of lies, about the record only.
func (m *messenger) twist(method string, got answer) answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.lie
	if method == http.MethodPut {
		if got.status >= 300 {
			return got
		}
		select {
		case m.swapped <- struct{}{}:
		default:
		}
		switch told {
		case swallowed:
			m.lie = truth
			panic(http.ErrAbortHandler)
		case forgedLoss:
			m.lie = truth
			return answer{status: http.StatusPreconditionFailed}
		}
		return got
	}
	if !bytes.Equal(got.body, m.last.body) {
		m.before, m.last = m.last, got
	}
	switch {
	case told == past && m.before.status == http.StatusOK:
		m.lie = truth
		return m.before
	case told == nothing:
		m.lie = truth
		return answer{status: http.StatusNotFound}
	case told == garbled:
		m.lie = truth
		return answer{status: http.StatusOK, header: got.header, body: []byte("<html>welcome</html>")}
	}
	return got
}

func (a answer) write(w http.ResponseWriter) {
	for name, values := range a.header {
		if name != "Content-Length" && name != "Date" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}
