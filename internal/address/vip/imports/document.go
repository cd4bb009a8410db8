package imports

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Result is what an import gives.
type Result struct {
	// YAML is a file for `holdfast vip run --config`.
	YAML []byte
	// Notes say, one line each, what was not carried over or works differently.
	Notes []string
}

// duration is written as people write it: 3s and not 3s with zeros behind it.
type duration time.Duration

func (d duration) MarshalYAML() (any, error) {
	t := time.Duration(d)
	switch {
	case t%time.Hour == 0 && t >= time.Hour:
		return fmt.Sprintf("%dh", t/time.Hour), nil
	case t%time.Minute == 0 && t >= time.Minute:
		return fmt.Sprintf("%dm", t/time.Minute), nil
	}
	return t.String(), nil
}

// document is vip.yaml with only what an import fills in.
type document struct {
	Groups []*group `yaml:"groups"`
	BGP    *speaker `yaml:"bgp,omitempty"`
}

type group struct {
	from      string    // name in the file
	Name      string    `yaml:"name"`
	Addresses []string  `yaml:"addresses,flow"`
	Interface string    `yaml:"interface,omitempty"`
	VRRP      *vrrp     `yaml:"vrrp,omitempty"`
	Lease     *lease    `yaml:"lease,omitempty"`
	Anycast   *struct{} `yaml:"anycast,omitempty"`
	Announce  []string  `yaml:"announce,flow"`
	Health    []*health `yaml:"health,omitempty"`
	Hooks     []*hook   `yaml:"hooks,omitempty"`
}

type vrrp struct {
	VRID         int      `yaml:"vrid"`
	Version      int      `yaml:"version"`
	Priority     int      `yaml:"priority"`
	Interval     duration `yaml:"interval"`
	Preempt      bool     `yaml:"preempt"`
	PreemptDelay duration `yaml:"preemptDelay,omitempty"`
	StartDelay   duration `yaml:"startDelay,omitempty"`
	Accept       *bool    `yaml:"accept,omitempty"`
	VirtualMAC   bool     `yaml:"virtualMAC,omitempty"`
	Peers        []string `yaml:"peers,omitempty,flow"`
	Sync         string   `yaml:"sync,omitempty"`
}

type lease struct {
	Kubernetes *kubernetes `yaml:"kubernetes,omitempty"`
	Etcd       *etcd       `yaml:"etcd,omitempty"`
	Self       string      `yaml:"self,omitempty"`
	Peers      []*peer     `yaml:"peers"`
	Duration   duration    `yaml:"duration,omitempty"`
}

type kubernetes struct {
	Kubeconfig string `yaml:"kubeconfig,omitempty"`
	Namespace  string `yaml:"namespace,omitempty"`
	Name       string `yaml:"name,omitempty"`
}

type etcd struct {
	Endpoints []string `yaml:"endpoints,flow"`
	CA        string   `yaml:"ca,omitempty"`
	Cert      string   `yaml:"cert,omitempty"`
	Key       string   `yaml:"key,omitempty"`
}

type peer struct {
	Name    string `yaml:"name"`
	Address string `yaml:"address"`
}

type health struct {
	Name      string   `yaml:"name"`
	Kind      string   `yaml:"kind"`
	Address   string   `yaml:"address,omitempty"`
	Path      string   `yaml:"path,omitempty"`
	CA        string   `yaml:"ca,omitempty"`
	Command   []string `yaml:"command,omitempty,flow"`
	Process   string   `yaml:"process,omitempty"`
	Interface string   `yaml:"interface,omitempty"`
	// Interval and Multiplier are those of bfd.
	Interval   duration `yaml:"interval,omitempty"`
	Multiplier int      `yaml:"multiplier,omitempty"`
	Period     duration `yaml:"period,omitempty"`
	Timeout    duration `yaml:"timeout,omitempty"`
	Rise       int      `yaml:"rise,omitempty"`
	Fall       int      `yaml:"fall,omitempty"`
	Weight     int      `yaml:"weight,omitempty"`
}

type hook struct {
	Command []string `yaml:"command,flow"`
	On      []string `yaml:"on,omitempty,flow"`
}

// speaker is the part bgp.
type speaker struct {
	AS       uint32    `yaml:"as"`
	RouterID string    `yaml:"routerID,omitempty"`
	Peers    []*router `yaml:"peers"`
}

type router struct {
	Address      string   `yaml:"address"`
	AS           uint32   `yaml:"as"`
	LocalAddress string   `yaml:"localAddress,omitempty"`
	Interface    string   `yaml:"interface,omitempty"`
	PasswordFile string   `yaml:"passwordFile,omitempty"`
	Multihop     int      `yaml:"multihop,omitempty"`
	Hold         duration `yaml:"hold,omitempty"`
	Keepalive    duration `yaml:"keepalive,omitempty"`
	Families     []string `yaml:"families,omitempty,flow"`
	BFD          *bfd     `yaml:"bfd,omitempty"`
}

type bfd struct {
	Interval   duration `yaml:"interval"`
	Multiplier int      `yaml:"multiplier"`
}

// collector gathers notes and mistakes.
type collector struct {
	notes    []string
	mistakes []error
}

func (c *collector) note(where, format string, args ...any) {
	c.notes = append(c.notes, where+": "+fmt.Sprintf(format, args...))
}

func (c *collector) mistake(where, format string, args ...any) {
	c.mistakes = append(c.mistakes, errors.New(where+": "+fmt.Sprintf(format, args...)))
}

// result renders what was gathered.
func (c *collector) result(d *document, from string) (Result, error) {
	if len(d.Groups) == 0 && len(c.mistakes) == 0 {
		c.mistakes = append(c.mistakes, fmt.Errorf("no address of %s was found; is this the right file?", from))
	}
	if len(c.mistakes) > 0 {
		return Result{}, errors.Join(c.mistakes...)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# From %s. Keys that are not here have their defaults.\n", from)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(d); err != nil {
		return Result{}, fmt.Errorf("write YAML: %w", err)
	}
	return Result{YAML: b.Bytes(), Notes: c.notes}, nil
}
