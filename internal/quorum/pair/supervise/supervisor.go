package supervise

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// Supervisor runs one etcd. Its methods may be called from several goroutines;
// they wait for one another.
type Supervisor interface {
	// Describe says how etcd was told to run. It is the same until the agent ends.
	Describe() Etcd
	// State looks. It takes microseconds while etcd runs.
	State(ctx context.Context) (State, error)
	// Start starts etcd and returns once it is on its way: whether it serves is
	// for its ports to say, and a start that failed is a State that is Stopped.
	// A *Refusal says what is in the way. Started while it runs, it is an error.
	Start(ctx context.Context, mode Mode) error
	// Stop asks etcd to end and after grace kills it; a grace of 0 kills at
	// once. It returns when the process is gone and will stay gone, or, with an
	// error, when ctx ends before. Repeated, or without an etcd, it is the same.
	Stop(ctx context.Context, grace time.Duration) error
	// Detach lets go of etcd, which lives on. Nothing else may be called after.
	Detach()
}

// Etcd is how a member was told to run: what its flags, its environment, its
// configuration file, its unit or its static pod say.
type Etcd struct {
	Name string
	// DataDir and WALDir are absolute paths of this machine. WALDir is empty for
	// DataDir/member/wal.
	DataDir, WALDir string
	// ClientURLs and PeerURLs are listened on, MetricsURLs too, which may be none.
	ClientURLs, PeerURLs, MetricsURLs []string
	// AdvertiseClient and AdvertisePeer are what others are told.
	AdvertiseClient, AdvertisePeer []string
	// InitialCluster has the peer URLs of each member by its name, as given for
	// the first start.
	InitialCluster map[string][]string
	// ClientTLS and PeerTLS speak to the client and peer ports as etcd itself
	// does; all empty without TLS.
	ClientTLS, PeerTLS         creds.Files
	ElectionTimeout, Heartbeat time.Duration
	// UID and GID are who etcd runs as.
	UID, GID int
	// Version is what the program says of itself, "3.6.16"; empty where it
	// cannot be asked.
	Version string
}

// Dir is where the member keeps its data, for package wal.
func (e Etcd) Dir() wal.Dir { return wal.Dir{Data: e.DataDir, WAL: e.WALDir} }

// Phase of an etcd.
type Phase int

const (
	// Stopped: no process is there, and none comes before Start.
	Stopped Phase = iota
	// Starting: no process is seen, but one may come.
	Starting
	// Running: the process is there, whether it serves or not.
	Running
)

func (p Phase) String() string {
	switch p {
	case Stopped:
		return "stopped"
	case Starting:
		return "starting"
	case Running:
		return "running"
	}
	return fmt.Sprintf("phase %d", int(p))
}

// State of an etcd.
type State struct {
	Phase Phase
	// PID and Since are of the process, when Running. Since is for people.
	PID   int
	Since time.Time
	// Ended says how the last process ended, when Stopped. It is nil if none
	// is known of.
	Ended *Ended
}

// Ended is how a process ended.
type Ended struct {
	// Known is false where nobody saw how: the process was a former agent's child.
	Known  bool           `json:"known"`
	Code   int            `json:"code"`
	Signal syscall.Signal `json:"signal,omitempty"`
}

func (e Ended) String() string {
	switch {
	case !e.Known:
		return "ended, and nobody saw how"
	case e.Signal != 0:
		return "ended by signal " + signalName(e.Signal)
	}
	return fmt.Sprintf("exited with %d", e.Code)
}

// Mode of a start.
type Mode struct {
	// Existing starts with --initial-cluster-state=existing and InitialCluster,
	// for a member that joins: "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380".
	// etcd looks at neither once the data directory has a member.
	Existing       bool
	InitialCluster string
}
