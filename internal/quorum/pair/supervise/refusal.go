package supervise

import "fmt"

// Reason says why etcd is not run. Programs branch on it; its text is stable.
type Reason string

const (
	// Unclear: what etcd was told cannot be read for certain.
	Unclear Reason = "unclear-arguments"
	// Unfit: what etcd was told does not go with a pair.
	Unfit Reason = "unfit-arguments"
	// Foreign: another system owns this machine's etcd.
	Foreign Reason = "owned-by-another-system"
	// Taken: another process runs etcd on this data directory.
	Taken Reason = "data-directory-in-use"
	// Busy: another agent uses this state directory.
	Busy Reason = "agent-runs-already"
	// NoProgram: there is no etcd to run.
	NoProgram Reason = "no-etcd-program"
	// PortTaken: another process listens where etcd has to.
	PortTaken Reason = "port-in-use"
	// NoSpace: the disk is full.
	NoSpace Reason = "no-space"
	// NotPermitted: etcd may not write to its directory, or the agent may not
	// run it.
	NotPermitted Reason = "not-permitted"
	// NotStarted: systemd or the kubelet was told to start etcd and did not.
	NotStarted Reason = "not-started"
	// Immovable: the data could not be moved aside by rename.
	Immovable Reason = "data-cannot-be-moved"
)

// Refusal is the error of an etcd that is left alone. It is found with errors.As.
type Refusal struct {
	Reason Reason
	// Detail says what was found, Remedy what a person can do.
	Detail, Remedy string
}

func (r *Refusal) Error() string {
	if r.Remedy == "" {
		return fmt.Sprintf("%s: %s", r.Reason, r.Detail)
	}
	return fmt.Sprintf("%s: %s; %s", r.Reason, r.Detail, r.Remedy)
}

func refuse(why Reason, remedy, format string, args ...any) *Refusal {
	return &Refusal{Reason: why, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}
