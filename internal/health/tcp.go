package health

import "context"

// tcp is a Prober that opens a connection, always a new one, and closes it.
type tcp struct{ dialler }

// Probe implements Prober.
func (p *tcp) Probe(ctx context.Context, _ bool) Result {
	conn, rtt, err := p.dial(ctx)
	if err != nil {
		r := gradeError(ctx, err, rtt > 0, false)
		r.Fresh = true
		return r
	}
	conn.Close()
	return Result{Grade: Ready, RTT: rtt, Fresh: true}
}

// Lost implements Prober.
func (p *tcp) Lost() <-chan struct{} { return nil }

// Close implements Prober.
func (p *tcp) Close() {}
