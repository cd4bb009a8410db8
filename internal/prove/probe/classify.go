package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/holdfast-ha/holdfast/internal/prove/hops"
)

// errClosed is the failure of a sample whose kept connection the peer has closed.
var errClosed = errors.New("connection closed by peer")

// errSilent is the failure of a sample that was waiting on a kept connection
// when it was given up for silence.
var errSilent = errors.New("kept connection gave no answer and was given up")

// codeError is an HTTP answer outside the expected set.
type codeError int

func (e codeError) Error() string { return fmt.Sprintf("unexpected HTTP code %d", int(e)) }

// serverError is a typed answer of a server that is not success.
type serverError struct{ text string }

func (e serverError) Error() string { return e.text }

// Classify returns the class of an attempt's error. Order matters: a name that
// could not be resolved in time is dns, not timeout.
func Classify(err error) Class {
	switch {
	case err == nil:
		return ClassOK
	case is[codeError](err):
		return ClassHTTP
	case is[serverError](err):
		return ClassServer
	case is[*net.DNSError](err):
		return ClassDNS
	case errors.Is(err, hops.ErrNoRoute):
		return ClassUnreachable
	}
	if class := classifyErrno(err); class != ClassOther {
		return class
	}
	switch {
	case isTLS(err):
		return ClassTLS
	case isTimeout(err):
		return ClassTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errClosed), errors.Is(err, errRetired):
		return ClassReset
	}
	return ClassOther
}

// classifyErrno sorts what the kernel said. EPERM and EACCES are what a sender
// gets whose own host drops or administratively refuses the packet, EINVAL
// what a blackhole route gives.
func classifyErrno(err error) Class {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return ClassOther
	}
	switch errno {
	case syscall.ECONNREFUSED:
		return ClassRefused
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return ClassReset
	case syscall.ETIMEDOUT:
		return ClassTimeout
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN,
		syscall.EADDRNOTAVAIL, syscall.EPERM, syscall.EACCES, syscall.EINVAL:
		return ClassUnreachable
	}
	return ClassOther
}

// isTLS covers the typed errors of crypto/tls and crypto/x509, alerts of the
// peer ("remote error"), and the rest by the prefix those packages put on all
// of their texts.
func isTLS(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return true
	}
	return is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err) ||
		is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) || is[x509.CertificateInvalidError](err) ||
		strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "x509: ")
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errSilent) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// firstLine keeps an error's text to what fits a line of NDJSON and of a table.
func firstLine(err error) string {
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
