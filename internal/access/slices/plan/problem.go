package plan

import (
	"fmt"
	"strings"
)

// Problem is something that only a person can mend.
type Problem struct {
	// Code is a stable word.
	Code string
	// Object is the name of what it is about: a slice, a node, a Lease.
	Object string
	// Text is one line with a remedy.
	Text string
}

// The codes of problems.
const (
	ZoneMissing      = "zone-missing"
	NodeTwice        = "node-twice"
	NameTaken        = "name-taken"
	StrangeSlice     = "strange-slice"
	ReconcilerActive = "reconciler-active"
	AddressUncovered = "address-uncovered"
	LastReady        = "last-ready"
	NodesUnzoned     = "nodes-unzoned"
	HintsFull        = "hints-full"
	ZonesUnknown     = "zones-unknown"
	PortsDiffer      = "ports-differ"
)

// Problems lists what keeps the agent from its work, in a stable order.
func Problems(cfg *Settings, self *Self, v *View, f *Facts) []Problem {
	var all []Problem
	add := func(code, object, format string, args ...any) {
		all = append(all, Problem{code, object, fmt.Sprintf(format, args...)})
	}
	switch {
	case f.Rivalry:
		add(NodeTwice, self.Node, "another agent renews the Lease of node %s as %s: give one of the two nodes another name; this agent writes nothing", self.Node, f.Rival)
	case f.Rival != "":
		add(NodeTwice, self.Node, "the Lease of node %s was held by %s: waiting for %s to see if it still is", self.Node, f.Rival, cfg.Gap)
	}
	if self.Zone == "" {
		add(ZoneMissing, self.Node, "node %s has no label topology.kubernetes.io/zone: set it with kubectl label node %s topology.kubernetes.io/zone=NAME; until then nothing new is published", self.Node, self.Node)
	}
	if !v.ZonesKnown {
		add(ZonesUnknown, "nodes", "the Nodes have not been read: zones without an apiserver are not adopted")
	}
	if len(v.Unzoned) > 0 {
		add(NodesUnzoned, "nodes", "no label topology.kubernetes.io/zone on %s: their pods are sent to the endpoints of all zones", some(v.Unzoned))
	}
	strangers(self, v, add)
	reconciler(v, f, add)
	lastReady(self, v, f, add)
	full(v, add)
	ports(v, add)
	return all
}

type adder = func(code, object, format string, args ...any)

// strangers finds slices that are not ours where ours should be, or beside them.
func strangers(self *Self, v *View, add adder) {
	for i := range v.Slices {
		s := &v.Slices[i]
		own := s.Name == SliceName(self.Node, IPv4) || s.Name == SliceName(self.Node, IPv6)
		switch {
		case own && s.Owner != Ours:
			add(NameTaken, s.Name, "EndpointSlice %s/%s has no label endpointslice.kubernetes.io/managed-by=%s: it is somebody else's and stays as it is; delete it, or give the node another name", Namespace, s.Name, ManagedBy)
		case own && (s.Name == SliceName(self.Node, IPv4)) != (s.Family == IPv4):
			add(NameTaken, s.Name, "EndpointSlice %s/%s is of type %s, which cannot be changed: delete it", Namespace, s.Name, s.Family)
		case s.Owner == Foreign:
			add(StrangeSlice, s.Name, "EndpointSlice %s/%s belongs to the Service %s and was made by somebody else: an endpoint without zone in it switches zones off for all; delete it", Namespace, s.Name, ServiceName)
		}
	}
}

func reconciler(v *View, f *Facts, add adder) {
	switch uncovered := Uncovered(v); {
	case f.Phase == Active:
		add(ReconcilerActive, ServiceName, "an apiserver writes EndpointSlice %s/%s itself, without zones: start every kube-apiserver with --endpoint-reconciler-type=none; until then its endpoints serve all zones beside ours", Namespace, ServiceName)
	case f.Phase == Occupied:
		add(NameTaken, ServiceName, "EndpointSlice %s/%s is neither ours nor the apiserver's: it stays as it is; delete it", Namespace, ServiceName)
	case f.Phase == Dormant && len(uncovered) > 0:
		add(AddressUncovered, ServiceName, "EndpointSlice %s/%s lists %s, which no agent publishes: start the agent on its node, or if the node is gone remove the address; until then it is not taken over", Namespace, ServiceName, some(uncovered))
	}
}

// lastReady tells of an unwell apiserver that stays in, as the last one.
func lastReady(self *Self, v *View, f *Facts, add adder) {
	if self.Health != Unready {
		return
	}
	for _, family := range families {
		own := v.slice(SliceName(self.Node, family))
		if own == nil || own.Owner != Ours || !own.Ready {
			continue
		}
		others := 0
		for i := range v.Slices {
			if s := &v.Slices[i]; s.Owner == Ours && s.Family == family && s.Ready && s.Node != self.Node && s.Zone != "" {
				others++
			}
		}
		if others == 0 {
			add(LastReady, own.Name, "the apiserver of %s is not ready, and its endpoint stays ready because no other is: mend any apiserver", self.Node)
		}
	}
}

// ports tells of apiservers that the slice kubernetes has no room for.
func ports(v *View, add adder) {
	var all []Member
	for i := range v.Slices {
		if s := &v.Slices[i]; isMember(s) {
			all = append(all, Member{Address: s.Address, Port: s.Port, Ready: s.Ready})
		}
	}
	port := commonPort(all)
	var others []string
	for _, m := range all {
		if m.Port != port {
			others = append(others, fmt.Sprintf("%s (port %d)", m.Address, m.Port))
		}
	}
	if len(others) > 0 {
		add(PortsDiffer, ServiceName, "EndpointSlice %s/%s can name one port and lists the apiservers of port %d: readers by name do not find %s; pods do; let every kube-apiserver listen on the same port", Namespace, ServiceName, port, some(others))
	}
}

// full tells of zones that nobody has room to hint.
func full(v *View, add adder) {
	for _, family := range families {
		room, used := 0, false
		var unserved []string
		for i := range v.Slices {
			if s := &v.Slices[i]; s.Owner == Ours && s.Family == family && s.Ready {
				used = true
				room += max(MaxHints-len(s.Hints), 0)
			}
		}
		for _, z := range inhabited(v) {
			if !served(v, family, z) {
				unserved = append(unserved, z)
			}
		}
		if used && room == 0 && len(unserved) > 0 {
			add(HintsFull, ServiceName, "an endpoint can hint %d zones and all ready ones do: the pods of %s are sent to all of them; run more apiservers, or fewer zones", MaxHints, some(unserved))
		}
	}
}

func served(v *View, family Family, zone string) bool {
	for i := range v.Slices {
		if s := &v.Slices[i]; s.Owner == Ours && s.Family == family && s.Ready && s.Hinted(zone) {
			return true
		}
	}
	return false
}

// some lists the first few of many.
func some(all []string) string {
	if few := 3; len(all) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:few], ", "), len(all)-few)
	}
	return strings.Join(all, ", ")
}
