package services

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// Plan is what an allocator has to do, and what there is to say.
type Plan struct {
	Writes []Write
	Notes  []Note
	// Pending are Services that lack an address.
	Pending []Pending
	Pools   []Use
}

// Write is a change of the status of a Service.
type Write struct {
	Service   *Service
	Addresses []netip.Addr // in the order of its families
}

// Note is an Event about a Service.
type Note struct {
	Service               *Service
	Kind, Reason, Message string
}

// Pending is a Service that lacks an address, and why.
type Pending struct {
	Service Key    `json:"service"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Use is how much of a pool is in use.
type Use struct {
	Name string `json:"name"`
	// Size is MaxUint64 where there are more addresses.
	Size uint64 `json:"size"`
	Used int    `json:"used"`
}

// Decide says which Service gets which address. The Services of the plan are
// elements of all.
func Decide(c *Config, all []Service) Plan {
	d := &decision{config: c, ledger: newLedger(c, all)}
	mine := make([]*Service, 0, len(all))
	for i := range all {
		if all[i].of(c.Class) {
			mine = append(mine, &all[i])
		}
	}
	slices.SortFunc(mine, older)
	holdings := make([]holding, len(mine))
	for i, s := range mine {
		holdings[i] = d.keep(s)
	}
	for i := range holdings {
		d.settle(&holdings[i])
	}
	d.plan.Pools = d.uses()
	return d.plan
}

func older(a, b *Service) int {
	return cmp.Or(cmp.Compare(a.Metadata.Created, b.Metadata.Created), byKey(a.Metadata.Key(), b.Metadata.Key()))
}

type decision struct {
	config *Config
	ledger *ledger
	plan   Plan
}

// holding is a Service with what it asks for and what it has.
type holding struct {
	service *Service
	wish    wish
	trouble *trouble
	has     map[core.IPFamily]netip.Addr
}

// keep enters what a Service has. An address that an older one has as well is lost.
func (d *decision) keep(s *Service) holding {
	h := holding{service: s, has: map[core.IPFamily]netip.Addr{}}
	h.wish, h.trouble = asked(s)
	families, _ := s.families()
	for _, a := range s.addresses() {
		f := familyOf(a)
		if !slices.Contains(families, f) || h.has[f].IsValid() {
			continue
		}
		if why := d.ledger.refuses(a, s, h.wish.share); why != "" {
			d.note(s, kubeapi.Warning, ReasonDuplicate, fmt.Sprintf("%s is in use by %s; another address is looked for", a, why))
			continue
		}
		h.has[f] = a
		d.ledger.add(a, s, h.wish.share)
	}
	return h
}

// settle decides about one Service.
func (d *decision) settle(h *holding) {
	families, must := h.service.families()
	gets, troubles := map[core.IPFamily]netip.Addr{}, []*trouble{}
	if h.trouble != nil {
		troubles = append(troubles, h.trouble)
		gets = h.has
	} else {
		for _, f := range families {
			a, t := d.choose(h, f)
			if t != nil {
				troubles = append(troubles, t)
			}
			if a.IsValid() {
				gets[f] = a
			}
		}
	}
	short := must && len(gets) < len(families)
	if short && len(h.has) == 0 { // both or none, the first time
		for _, a := range gets {
			d.ledger.remove(a, h.service)
		}
		gets = nil
	}
	d.change(h, families, gets)
	d.complain(h, troubles, len(gets) == 0 || short)
}

// choose returns what the Service gets of a family, which with a trouble is what
// it has.
func (d *decision) choose(h *holding, f core.IPFamily) (netip.Addr, *trouble) {
	has := h.has[f]
	i := slices.IndexFunc(h.wish.addresses, func(a netip.Addr) bool { return familyOf(a) == f })
	if i >= 0 {
		if a := h.wish.addresses[i]; a != has {
			if t := d.grant(h, a); t != nil {
				return has, t
			}
			return a, nil
		}
	}
	var wanted *Pool
	if h.wish.pool != "" {
		if wanted = d.config.named(h.wish.pool); wanted == nil {
			return has, troubled(ReasonUnknownPool, "there is no pool %q; the pools are %s", h.wish.pool, d.names())
		}
	}
	switch p := d.config.Find(has); {
	case !has.IsValid():
	case wanted != nil && p != wanted && i < 0:
	case p == nil:
		return has, troubled(ReasonUnpooled, "%s is in no pool any more and is not announced; put it back into services.pools, or ask for another with annotation %s", has, AnnotationPool)
	default:
		return has, nil
	}
	return d.search(h, f, wanted)
}

// grant says why a Service cannot have the address that it asks for, or nil.
func (d *decision) grant(h *holding, a netip.Addr) *trouble {
	p := d.config.Find(a)
	switch {
	case p == nil:
		return troubled(ReasonOutside, "%s is in no pool; ask for one of %s, or add it to services.pools", a, d.ranges())
	case h.wish.pool != "" && p.Name != h.wish.pool:
		return troubled(ReasonConflict, "%s is in pool %s, and annotation %s says %s; remove one of them", a, p.Name, AnnotationPool, h.wish.pool)
	case !p.serves(h.service):
		return troubled(ReasonRefused, "%s is in pool %s, which is not for this Service; see its namespaces and serviceSelector", a, p.Name)
	}
	if why := d.ledger.refuses(a, h.service, h.wish.share); why != "" {
		return troubled(ReasonInUse, "%s is in use by %s; ask for another", a, why)
	}
	d.take(h, a)
	return nil
}

// search finds an address in the pool that is asked for, else in any.
func (d *decision) search(h *holding, f core.IPFamily, wanted *Pool) (netip.Addr, *trouble) {
	var tried []string
	for i := range d.config.Pools {
		p := &d.config.Pools[i]
		switch {
		case wanted == nil && !p.Auto, wanted != nil && p != wanted:
			continue
		case !p.serves(h.service):
			if wanted != nil {
				return h.has[f], troubled(ReasonRefused, "pool %s is not for this Service; see its namespaces and serviceSelector", p.Name)
			}
			continue
		}
		if a, ok := d.ledger.find(p, f, h.service, h.wish.share); ok {
			d.take(h, a)
			return a, nil
		}
		tried = append(tried, p.Name)
	}
	if len(tried) == 0 {
		return h.has[f], troubled(ReasonRefused, "no pool with autoAssign is for this Service; name one of %s with annotation %s", d.names(), AnnotationPool)
	}
	return h.has[f], troubled(ReasonExhausted, "no %s address is left in %s; add addresses to services.pools, or delete Services", f, strings.Join(tried, ", "))
}

// take enters an address in place of the one of its family.
func (d *decision) take(h *holding, a netip.Addr) {
	if old := h.has[familyOf(a)]; old.IsValid() {
		d.ledger.remove(old, h.service)
	}
	d.ledger.add(a, h.service, h.wish.share)
}

// change writes what a Service gets where that is not what it has.
func (d *decision) change(h *holding, families []core.IPFamily, gets map[core.IPFamily]netip.Addr) {
	var all []netip.Addr
	for _, f := range families {
		if a := gets[f]; a.IsValid() {
			all = append(all, a)
		}
	}
	if h.service.says(all) {
		return
	}
	d.plan.Writes = append(d.plan.Writes, Write{h.service, all})
}

func (d *decision) complain(h *holding, troubles []*trouble, pending bool) {
	for _, t := range troubles {
		d.note(h.service, kubeapi.Warning, t.reason, t.message)
	}
	if pending && len(troubles) > 0 {
		t := troubles[0]
		d.plan.Pending = append(d.plan.Pending, Pending{h.service.Metadata.Key(), t.reason, t.message})
	}
}

func (d *decision) note(s *Service, kind, reason, message string) {
	d.plan.Notes = append(d.plan.Notes, Note{s, kind, reason, message})
}

func (d *decision) names() string {
	var all []string
	for _, p := range d.config.Pools {
		all = append(all, p.Name)
	}
	return strings.Join(all, ", ")
}

func (d *decision) ranges() string {
	var all []string
	for _, p := range d.config.Pools {
		for _, s := range p.Spans {
			all = append(all, s.String())
		}
	}
	return strings.Join(all, ", ")
}

func (d *decision) uses() []Use {
	all := make([]Use, 0, len(d.config.Pools))
	for i := range d.config.Pools {
		p := &d.config.Pools[i]
		u := Use{Name: p.Name, Size: p.Size()}
		for a, users := range d.ledger.users {
			if len(users) > 0 && p.has(a) {
				u.Used++
			}
		}
		for a := range d.ledger.others {
			if p.has(a) && len(d.ledger.users[a]) == 0 {
				u.Used++
			}
		}
		all = append(all, u)
	}
	return all
}
