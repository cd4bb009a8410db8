package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// startPatience bounds the start of a lab with all that runs in it. On two
// cores it takes 3 s with etcd; apiservers take 5 s more without delays and 15 s
// with preset rtt, the rest of Kubernetes 6 s and 11 s (measured beside other
// work).
const startPatience = 3 * time.Minute

// supervise owns a lab until ctx ends or it is told to end, and then leaves
// nothing of it. dir exists and is the lab's own. ready is called once, when
// the lab can be used.
func supervise(ctx context.Context, dir string, spec Spec, log *slog.Logger, ready func()) error {
	s, err := newState(spec.Name)
	if err != nil {
		return err
	}
	// From here on `lab down` can find this process, whatever happens to it.
	if err := s.write(dir); err != nil {
		return err
	}
	spec.Dir = dir
	l, err := bringUp(ctx, &s, dir, spec, log)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	ctx, down := context.WithCancel(ctx)
	defer down()
	var later sync.WaitGroup
	if spec.KubernetesOptions.NodeServer != "" {
		later.Go(func() { startLater(ctx, l, log) })
	}
	err = serve(ctx, l, s, dir, down, ready)
	down()
	later.Wait()
	return errors.Join(err, l.Close(), os.RemoveAll(dir))
}

// startLater starts Kubernetes where the server that nodes dial is started by
// whoever brought the lab up.
func startLater(ctx context.Context, l *Lab, log *slog.Logger) {
	if err := l.StartKubernetes(ctx); err != nil && ctx.Err() == nil {
		log.Error("kubernetes does not start", "lab", l.spec.Name, "error", err)
	}
}

// bringUp starts the lab and its etcd; the namespaces are written down before
// the first process can outlive this one in them.
func bringUp(ctx context.Context, s *state, dir string, spec Spec, log *slog.Logger) (*Lab, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	l, err := Start(ctx, spec, log)
	if err != nil {
		return nil, err
	}
	s.fill(l)
	if err := s.write(dir); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := l.StartEtcd(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := l.StartAPIServers(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if spec.KubernetesOptions.NodeServer != "" {
		return l, nil // see startLater
	}
	if err := l.StartKubernetes(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func serve(ctx context.Context, l *Lab, s state, dir string, down, ready func()) error {
	listener, err := net.Listen("unix", filepath.Join(dir, socketFile))
	if err != nil {
		return fmt.Errorf("listen on control socket: %w", err)
	}
	server := &http.Server{Handler: controller(l, s, down), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		// The answer to the request to end is written before this returns.
		grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = server.Shutdown(grace)
	})
	defer stop()
	ready()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve control socket: %w", err)
	}
	return nil
}

// The supervisor tells how its start went on descriptor 3, which the command
// that started it reads.
const (
	readyFd   = 3
	readyWord = "ready"
)

// superviseDetached is the body of the hidden command: as supervise, but the
// outcome of the start goes to the ready pipe.
func superviseDetached(ctx context.Context, dir string, spec Spec, logTo io.Writer) error {
	// It came without the flag, and members must not hold it open.
	unix.CloseOnExec(readyFd)
	pipe := os.NewFile(readyFd, "ready")
	defer func() { _ = pipe.Close() }()
	log := slog.New(slog.NewJSONHandler(logTo, nil))
	err := supervise(ctx, dir, spec, log, func() {
		_, _ = fmt.Fprintln(pipe, readyWord)
		_ = pipe.Close()
	})
	if err != nil {
		// After a good start the pipe is closed and nobody reads.
		_, _ = fmt.Fprint(pipe, err.Error())
		log.Error("lab has ended", "error", err)
	}
	return err
}
