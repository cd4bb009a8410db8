package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
)

// watchLink is one watch that demands a leader, on a connection of its own. A
// sample asks the stream for a progress notification and waits for it; nobody
// writes the watched key. The member cuts the stream itself when it has been
// without a leader for three election timeouts (v3rpc/interceptor.go,
// maxNoLeaderCnt) and refuses a new one at once, so the stream tells a
// leaderless member a little later than a put does.
type watchLink struct {
	*etcdLink
	*progress
	path   *etcdPath
	stream pb.Watch_WatchClient
	cancel context.CancelFunc
	send   sync.Mutex
}

func newWatch(p *Path) (attempter, error) {
	e, err := loadEtcd(p)
	if err != nil {
		return nil, err
	}
	return attempts(p, e.watch, e.follow), nil
}

// watch opens the stream and waits for the watch to be created; ctx bounds
// only that.
func (e *etcdPath) watch(ctx context.Context) (*watchLink, error) {
	l, err := e.dial(ctx)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	w := &watchLink{etcdLink: l, progress: &progress{}, path: e, cancel: cancel}
	unhook := context.AfterFunc(ctx, cancel)
	err = w.create(metadata.AppendToOutgoingContext(life, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader))
	if !unhook() {
		err = fmt.Errorf("create watch: %w", ctx.Err())
	}
	if err != nil {
		w.close()
		return nil, err
	}
	go w.receive()
	return w, nil
}

func (w *watchLink) create(ctx context.Context) error {
	var err error
	if w.stream, err = pb.NewWatchClient(w.conn).Watch(ctx); err != nil {
		return w.explain(err)
	}
	create := &pb.WatchCreateRequest{Key: []byte(w.path.Key)}
	err = w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
	if err != nil && !errors.Is(err, io.EOF) {
		return w.explain(err)
	}
	// After io.EOF from Send the reason comes from Recv.
	answer, err := w.stream.Recv()
	if err != nil {
		return w.explain(err)
	}
	return refused(answer)
}

// refused returns why the member cancelled the watch, if it did.
func refused(answer *pb.WatchResponse) error {
	if !answer.Canceled {
		return nil
	}
	return serverError{or(answer.CancelReason, "watch cancelled by the member")}
}

// receive passes progress on until the stream ends.
func (w *watchLink) receive() {
	for {
		answer, err := w.stream.Recv()
		if err == nil {
			err = refused(answer)
		} else if errors.Is(err, io.EOF) {
			err = errClosed
		} else {
			err = w.explain(err)
		}
		if err != nil {
			w.fail(err)
			return
		}
		if len(answer.Events) == 0 && !answer.Created {
			w.reply()
		}
	}
}

func (w *watchLink) gone() error { return w.broken(w.path.patience()) }

func (w *watchLink) close() {
	w.cancel()
	w.etcdLink.close()
}

// follow asks for progress and waits for it.
func (e *etcdPath) follow(ctx context.Context, w *watchLink) outcome {
	o := outcome{local: w.wire.local(), peer: w.wire.peer()}
	asked := w.ask()
	w.send.Lock()
	err := w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	w.send.Unlock()
	if err != nil && !errors.Is(err, io.EOF) {
		w.fail(w.explain(err))
	}
	o.err = w.wait(ctx, asked)
	return o
}
