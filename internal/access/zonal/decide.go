package zonal

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

func uidOf(s string) types.UID { return types.UID(s) }

// Snapshot is the world as it was last seen.
type Snapshot struct {
	// Services are those that ask for a mirror, and those whose names end as
	// mirrors' do.
	Services map[Key]Service
	// Slices are those with our label.
	Slices map[Key]Slice
	// Taken are names of slices that somebody else has.
	Taken map[Key]bool
}

// Verb is what an Action does.
type Verb string

// The verbs, as RBAC names them.
const (
	Create Verb = "create"
	Patch  Verb = "patch"
	Delete Verb = "delete"
)

// Kind is what an Action is about, as RBAC names it.
type Kind string

// The kinds that are written.
const (
	Services Kind = "services"
	Slices   Kind = "endpointslices"
)

// Action is one write.
type Action struct {
	Verb Verb
	Kind Kind
	Name Key
	// UID and Version are of the state that a deletion is about.
	UID, Version string
	// Body is a new object, or a merge patch that names the version it is about.
	Body map[string]any
	// Real is the Service on whose behalf.
	Real Key
	// Free are names of slices that must not be taken before a mirror is created.
	Free []Key
	// Why is one word for the log.
	Why string
}

// State says how far a mirror is.
type State string

// States.
const (
	Kept    State = "kept"
	Pending State = "pending"
	Refused State = "refused"
)

// Mirror is the outcome for one Service that asks for a mirror.
type Mirror struct {
	Real  Key
	Name  Key
	State State
	// Reason and Message say why it is not kept.
	Reason, Message string
	// Endpoints are the addresses that the mirror leads to.
	Endpoints []string
}

// Plan is what a pass does and what it leaves.
type Plan struct {
	Actions []Action
	Mirrors []Mirror
}

// Decide says what to write so that every Service that asks for a mirror has
// one. It is repeated until there is nothing to do: an object that has to exist
// before another is made in an earlier pass.
func Decide(s Snapshot) Plan {
	p := planner{snapshot: s, keep: map[Key]bool{}, keepSlice: map[Key]bool{}, foreign: map[Key]bool{}}
	for _, name := range slices.SortedFunc(maps.Keys(s.Services), byKey) {
		if service := s.Services[name]; service.asked() {
			p.serve(&service)
		}
	}
	p.clear()
	return p.plan
}

type planner struct {
	snapshot Snapshot
	plan     Plan
	// keep and keepSlice are names that are not cleared away.
	keep, keepSlice map[Key]bool
	// foreign are Services with a mirror's name that are not ours.
	foreign map[Key]bool
}

func (p *planner) serve(s *Service) {
	real := s.Metadata.Key()
	out := Mirror{Real: real, Name: real.plus(suffix), State: Kept}
	m, refusal := mirrorOf(s)
	have, exists := p.snapshot.Services[out.Name]
	taken := p.taken(m)
	switch {
	case refusal != nil:
		out.refuse(refusal)
		if !refusal.Withdraw {
			p.leave(out.Name)
		}
	case exists && !have.ours():
		out.refuse(&Refusal{Reason: "NameTaken", Message: "Service " + out.Name.String() + " is not ours and stays as it is; delete or rename it"})
		p.foreign[out.Name] = true
	case !exists && len(taken) > 0:
		out.refuse(nameTaken(taken))
		p.leave(out.Name) // what is left of an older mirror is the garbage collector's
	default:
		p.build(m, &have, exists, &out)
		if len(taken) > 0 {
			out.refuse(nameTaken(taken))
		}
	}
	p.plan.Mirrors = append(p.plan.Mirrors, out)
}

func (m *Mirror) refuse(r *Refusal) {
	m.State, m.Reason, m.Message, m.Endpoints = Refused, r.Reason, r.Message, nil
}

func nameTaken(names []Key) *Refusal {
	return &Refusal{Reason: "SliceNameTaken", Message: "EndpointSlice " + names[0].String() + " is not ours and stays as it is; delete or rename it"}
}

// taken are the names of the mirror's slices that somebody else has.
func (p *planner) taken(m mirror) (names []Key) {
	for _, name := range slices.SortedFunc(maps.Keys(m.slices), byKey) {
		have, exists := p.snapshot.Slices[name]
		if p.snapshot.Taken[name] && !exists || exists && !have.ours() {
			names = append(names, name)
		}
	}
	return names
}

// leave keeps a mirror and its slices from being cleared away.
func (p *planner) leave(name Key) {
	p.keep[name], p.keepSlice[name], p.keepSlice[name.plus(suffix6)] = true, true, true
}

// build plans one mirror: slices before the Service, so that a proxy which
// reads the Service finds what it names; but a slice needs a Service to belong to.
func (p *planner) build(m mirror, have *Service, exists bool, out *Mirror) {
	p.keep[m.name] = true
	names := slices.SortedFunc(maps.Keys(m.slices), byKey)
	for _, name := range names {
		p.keepSlice[name] = true
		out.Endpoints = append(out.Endpoints, m.slices[name].ip)
	}
	before := len(p.plan.Actions)
	switch {
	case !exists:
		p.act(Action{Verb: Create, Kind: Services, Name: m.name, Body: m.create(), Real: out.Real, Free: names, Why: "missing"})
	case have.Metadata.DeletionTimestamp != nil:
		out.State, out.Reason, out.Message = Pending, "Terminating", "Service "+m.name.String()+" is being deleted; it is made again when it is gone"
	case m.stuck(have):
		p.repoint(m, have, names, out)
		p.act(Action{Verb: Delete, Kind: Services, Name: m.name, UID: have.Metadata.UID, Version: have.Metadata.ResourceVersion, Real: out.Real, Why: "families"})
		p.leave(m.name)
	default:
		p.repoint(m, have, names, out)
		if why := m.differs(have); why != "" {
			p.act(Action{Verb: Patch, Kind: Services, Name: m.name, Body: m.patch(have), Real: out.Real, Why: why})
		}
	}
	if len(p.plan.Actions) > before {
		out.State = Pending
	}
}

// repoint plans the slices of a mirror that exists.
func (p *planner) repoint(m mirror, have *Service, names []Key, out *Mirror) {
	uid := have.Metadata.UID
	for _, name := range names {
		slice, exists := p.snapshot.Slices[name]
		switch {
		case p.snapshot.Taken[name] && !exists || exists && !slice.ours():
			// told by taken
		case !exists:
			p.act(Action{Verb: Create, Kind: Slices, Name: name, Body: m.createSlice(name, uid), Real: out.Real, Why: "missing"})
		case slice.Metadata.DeletionTimestamp != nil:
			out.State = Pending
		case slice.AddressType != m.slices[name].family: // which cannot be changed
			p.act(Action{Verb: Delete, Kind: Slices, Name: name, UID: slice.Metadata.UID, Version: slice.Metadata.ResourceVersion, Real: out.Real, Why: "family"})
		default:
			if why := m.sliceDiffers(&slice, uid); why != "" {
				p.act(Action{Verb: Patch, Kind: Slices, Name: name, Body: m.patchSlice(&slice, uid), Real: out.Real, Why: why})
			}
		}
	}
}

func (p *planner) act(a Action) { p.plan.Actions = append(p.plan.Actions, a) }

// clear plans the removal of what is ours and belongs to nothing any more:
// Services first, so that nobody finds one without endpoints.
func (p *planner) clear() {
	for _, name := range slices.SortedFunc(maps.Keys(p.snapshot.Services), byKey) {
		s := p.snapshot.Services[name]
		if !p.keep[name] && s.ours() && s.Metadata.DeletionTimestamp == nil {
			p.act(Action{Verb: Delete, Kind: Services, Name: name, UID: s.Metadata.UID, Version: s.Metadata.ResourceVersion, Real: realOf(name), Why: unwanted})
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(p.snapshot.Slices), byKey) {
		s := p.snapshot.Slices[name]
		of, ok := s.mirror()
		if p.keepSlice[name] || !ok || s.Metadata.DeletionTimestamp != nil {
			continue
		}
		why := unwanted
		if p.foreign[of] {
			// A slice of a Service that lost our label still serves it; one of
			// a mirror that was replaced would give the other's clients our address.
			if why = astray; owned(&s.Metadata, of.Name, p.snapshot.Services[of].Metadata.UID) {
				continue
			}
		}
		p.act(Action{Verb: Delete, Kind: Slices, Name: name, UID: s.Metadata.UID, Version: s.Metadata.ResourceVersion, Real: realOf(of), Why: why})
	}
}

// Why something is deleted that is not replaced: it belongs to no Service that
// asks for it, or to one that somebody else made.
const (
	unwanted = "unwanted"
	astray   = "astray"
)

// realOf is the Service that a mirror is of.
func realOf(mirror Key) Key {
	return Key{mirror.Namespace, mirror.Name[:len(mirror.Name)-len(suffix)]}
}

// stillUnwanted says whether a deletion is right given the Service and its mirror
// as they are now, read anew; nil when there is none.
func stillUnwanted(a Action, real, mirror *Service) bool {
	if a.Why == astray {
		return mirror != nil && !mirror.ours()
	}
	if real == nil || !real.asked() {
		return true
	}
	m, refusal := mirrorOf(real)
	if refusal != nil {
		return refusal.Withdraw
	}
	_, wanted := m.slices[a.Name]
	return a.Kind == Slices && !wanted
}
