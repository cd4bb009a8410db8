package probe

import (
	"context"
	"fmt"
	"io"
	"time"
)

// httpStream is one long response; each piece of it is a sign of life.
type httpStream struct {
	*httpLink
	*progress
	path   *httpPath
	body   io.ReadCloser
	code   int
	cancel context.CancelFunc
}

// open asks for the response and takes its header. The request outlives ctx,
// which bounds only the opening.
func (h *httpPath) open(ctx context.Context) (*httpStream, error) {
	l, err := h.dial(ctx)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	unhook := context.AfterFunc(ctx, cancel)
	resp, err := h.ask(life, l)
	if !unhook() && err == nil {
		_ = resp.Body.Close()
		err = ctx.Err()
	}
	if err == nil && !h.expect.has(resp.StatusCode) {
		_ = resp.Body.Close()
		err = codeError(resp.StatusCode)
	} else if err != nil {
		err = explainHTTP(ctx, l, err)
	}
	if err != nil {
		cancel()
		l.close()
		return nil, err
	}
	s := &httpStream{httpLink: l, progress: &progress{}, path: h, body: resp.Body, code: resp.StatusCode, cancel: cancel}
	go s.read()
	return s, nil
}

// read turns pieces of the response into signs. A server that ends the
// response has ended the stream, whatever its reasons.
func (s *httpStream) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.body.Read(buf)
		if n > 0 {
			s.sign(time.Now())
		}
		if err != nil {
			if broke := s.wire.broken(); broke != nil {
				err = broke
			}
			s.fail(fmt.Errorf("stream ended: %w", err))
			return
		}
	}
}

func (s *httpStream) gone() error { return s.broken(s.path.patience()) }

func (s *httpStream) close() {
	s.cancel()
	s.httpLink.close()
}

// follow waits for the next piece of the response.
func (h *httpPath) follow(ctx context.Context, s *httpStream) outcome {
	o := outcome{code: s.code, local: s.wire.local(), peer: s.wire.peer()}
	o.err = s.wait(ctx, s.ask())
	return o
}
