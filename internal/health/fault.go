package health

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// gradeError grades a probe that got no answer. connected says that TCP had
// succeeded, authenticated that we showed credentials.
func gradeError(ctx context.Context, err error, connected, authenticated bool) Result {
	r := Result{Grade: NotReady, Reason: line(err.Error())}
	switch errno, _ := errors.AsType[syscall.Errno](err); {
	case isTimeout(ctx, err):
		r.Grade, r.Reason = Unreachable, "no connection in time"
		if connected {
			r.Grade, r.Reason = Frozen, "connected, but no answer in time"
		}
	case isLocal(errno):
		r.Grade, r.Reason = Unknown, "could not check: "+line(err.Error())
	case errors.Is(err, errSilentEnd), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isRefusal(errno):
		r.Grade = Refused
	case errno == syscall.ETIMEDOUT && connected:
		r.Grade = Frozen
	case isUnreachable(errno), is[*net.DNSError](err):
		r.Grade = Unreachable
	case refusesCertificate(err):
		r.Grade, r.CredentialsRefused = Alive, authenticated
		r.Reason = "wants a client certificate: " + r.Reason
		if authenticated {
			r.Reason = "credentials refused: " + line(err.Error())
		}
	case is[tls.RecordHeaderError](err):
		r.Reason = "does not speak TLS"
	}
	return r
}

// isTimeout includes the end of ctx, after which our own closing of the
// connection makes the error.
func isTimeout(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// isLocal covers what this process or host lacks, which says nothing about the
// server: descriptors, memory, ports.
func isLocal(errno syscall.Errno) bool {
	switch errno {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EAGAIN:
		return true
	}
	return false
}

// isRefusal covers that nobody serves there although the host answers; ENOENT
// is a unix socket that is not there.
func isRefusal(errno syscall.Errno) bool {
	switch errno {
	case syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED, syscall.ENOENT:
		return true
	}
	return false
}

// isUnreachable covers routes; EPERM and EACCES are what a sender gets whose
// own firewall drops or rejects the packet, EINVAL what a blackhole route gives.
func isUnreachable(errno syscall.Errno) bool {
	switch errno {
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN,
		syscall.ETIMEDOUT, syscall.EPERM, syscall.EACCES, syscall.EINVAL:
		return true
	}
	return false
}

// refusesCertificate recognises the alerts 42 to 48 and 116 (RFC 8446, 6.2) by
// which a server says that it does not accept our certificate or its absence;
// crypto/tls gives them no exported type. In TLS 1.3 they come after the
// handshake.
func refusesCertificate(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate")
}

// line makes text fit one line of a table.
func line(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	const most = 240
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
