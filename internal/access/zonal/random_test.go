package zonal

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// rig is a world in which people edit at random while the code under test works
// from views that lag behind.
type rig struct {
	*world
	t      *testing.T
	random *rand.Rand
	view   *view
	// alien are objects that the code under test did not make, as people left them.
	alien map[string]object
	log   []string
}

var names = []string{"web", "api", "web-zonal"}

func (r *rig) chance(n int) bool { return r.random.IntN(n) == 0 }

func pick[T any](r *rig, all ...T) T { return all[r.random.IntN(len(all))] }

func (r *rig) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
	if len(r.log) > 60 {
		r.log = r.log[1:]
	}
}

func (r *rig) spec() object {
	ports := []any{object{"name": "a", "port": float64(80 + r.random.IntN(3)), "targetPort": pick[any](r, "x", 8080.0)}}
	if r.chance(2) {
		ports = append(ports, object{"name": "b", "port": 90.0, "protocol": pick(r, "UDP", "SCTP", "TCP"), "appProtocol": "h2c"})
	}
	s := object{"ports": ports, "selector": object{"app": "x"}, "trafficDistribution": "PreferClose"}
	switch r.random.IntN(8) {
	case 0:
		s["clusterIP"] = "None"
	case 1:
		return object{"type": "ExternalName", "externalName": "x"}
	case 2:
		s["ipFamilies"], s["ipFamilyPolicy"] = []any{"IPv6"}, "SingleStack"
	case 3, 4:
		s["ipFamilies"], s["ipFamilyPolicy"] = []any{"IPv6", "IPv4"}, "PreferDualStack"
	case 5:
		s["ipFamilies"], s["ipFamilyPolicy"] = []any{"IPv4", "IPv6"}, "RequireDualStack"
	}
	return s
}

// personally marks what a person has made or changed and is not ours any more.
func (r *rig) personally(path string) {
	if o, ok := r.objects[path]; ok && !oursIs(path, o) {
		r.alien[path] = copied(o)
	} else {
		delete(r.alien, path)
	}
}

// oursIs is a dumb twin of ours.
func oursIs(path string, o object) bool {
	meta := sub(o, "metadata")
	label, names := managedBy, []string{strings.TrimSuffix(text(meta, "name"), "-zonal")}
	if strings.HasPrefix(path, slicesPath) {
		label, names = "endpointslice.kubernetes.io/managed-by", []string{text(meta, "name"), strings.TrimSuffix(text(meta, "name"), "-ipv6")}
	}
	if text(sub(meta, "labels"), label) != owner {
		return false
	}
	for _, each := range list(meta, "ownerReferences") {
		if ref := each.(object); ref["controller"] == true && slices.Contains(names, text(ref, "name")) {
			return true
		}
	}
	return false
}

// edit is one thing that a person does.
func (r *rig) edit() {
	name := names[r.random.IntN(len(names))]
	path := servicesPath + name
	switch r.random.IntN(14) {
	case 10, 11, 12, 13: // an administrator makes room
		for _, p := range slices.Sorted(maps.Keys(r.alien)) {
			if strings.HasSuffix(strings.TrimSuffix(p, "-ipv6"), "-zonal") {
				delete(r.objects, p)
				delete(r.alien, p)
				r.note("person removes %s", p)
				return
			}
		}
	case 0, 1, 2: // the Service itself
		r.editReal(name, path)
	case 3, 4, 5: // its mirror
		r.editMirror(servicesPath + name + "-zonal")
	case 6, 7, 8:
		r.editSlice(slicesPath + name + "-zonal" + pick(r, "", "-ipv6"))
	case 9:
		r.collect()
		for p := range r.alien {
			if _, ok := r.objects[p]; !ok {
				delete(r.alien, p)
			}
		}
	}
}

func (r *rig) editReal(name, path string) {
	old, exists := r.objects[path]
	switch {
	case !exists:
		meta := object{"name": name, "namespace": "shop"}
		if !r.chance(4) {
			meta["annotations"] = object{annotation: pick(r, "true", "true", "true", "false", "yes")}
		}
		_ = r.put(path, object{"metadata": meta, "spec": r.spec()}, nil)
		r.note("person creates %s: %s", path, encoded(r.objects[path]))
	case r.chance(4):
		delete(r.objects, path)
		r.note("person deletes %s", path)
	case r.chance(2):
		r.patched(path, old, object{"metadata": object{"annotations": object{annotation: pick[any](r, "true", "true", "false", nil, "yes")}}})
	default:
		spec := r.spec()
		for _, k := range []string{"clusterIP", "type", "externalName"} {
			delete(spec, k)
		}
		if r.chance(2) {
			spec["ipFamilies"], spec["ipFamilyPolicy"] = []any{list(sub(old, "spec"), "ipFamilies")}, nil
			delete(spec, "ipFamilies")
			delete(spec, "ipFamilyPolicy")
		}
		r.patched(path, old, object{"spec": spec})
	}
	r.personally(path)
}

func (r *rig) patched(path string, old, patch object) {
	fresh := copied(old)
	merge(fresh, copied(patch))
	if ips := list(sub(fresh, "spec"), "clusterIPs"); len(ips) > len(list(sub(fresh, "spec"), "ipFamilies")) {
		sub(fresh, "spec")["clusterIPs"] = ips[:1]
	}
	err := r.put(path, fresh, old)
	r.note("person patches %s with %s: %v", path, encoded(patch), err)
}

func (r *rig) editMirror(path string) {
	old, exists := r.objects[path]
	switch {
	case !exists && r.chance(6):
		_ = r.put(path, object{"metadata": object{"name": path[len(servicesPath):], "namespace": "shop"}, "spec": r.spec()}, nil)
		r.note("person creates %s", path)
	case !exists:
		return
	case r.chance(5):
		delete(r.objects, path)
		r.note("person deletes %s", path)
	default:
		r.patched(path, old, pick(
			r,
			object{"spec": object{"ports": []any{object{"name": "z", "port": 1.0}}}},
			object{"spec": object{"selector": object{"a": "b"}}},
			object{"spec": object{"type": "NodePort"}},
			object{"spec": object{"type": "ExternalName", "externalName": "x"}},
			object{"spec": object{"type": "LoadBalancer", "loadBalancerSourceRanges": []any{"10.0.0.0/8"}}},
			object{"spec": object{"trafficDistribution": "PreferClose"}},
			object{"spec": object{"ipFamilies": []any{"IPv4", "IPv6"}, "ipFamilyPolicy": "RequireDualStack"}},
			object{"metadata": object{"labels": object{"team": "x"}}},
			object{"metadata": object{"labels": object{managedBy: nil}}},
			object{"metadata": object{"ownerReferences": nil}},
		))
	}
	r.personally(path)
}

func (r *rig) editSlice(path string) {
	old, exists := r.objects[path]
	family := "IPv4"
	if strings.HasSuffix(path, "-ipv6") {
		family = "IPv6"
	}
	switch {
	case !exists && r.chance(6):
		_ = r.put(path, object{"metadata": object{"name": path[len(slicesPath):], "namespace": "shop"}, "addressType": family}, nil)
		r.note("person creates %s", path)
	case !exists:
		return
	case r.chance(5):
		delete(r.objects, path)
		r.note("person deletes %s", path)
	case r.chance(8): // of the other family, with all that makes it ours
		fresh := copied(old)
		fresh["addressType"], fresh["endpoints"] = pick(r, "IPv4", "IPv6"), []any{}
		delete(r.objects, path)
		_ = r.put(path, fresh, nil)
		r.note("person remakes %s", path)
	default:
		r.patched(path, old, pick(
			r,
			object{"endpoints": []any{}},
			object{"ports": []any{}},
			object{"endpoints": []any{object{"addresses": []any{}, "conditions": object{"ready": false}}}},
			object{"metadata": object{"labels": object{"kubernetes.io/service-name": "other"}}},
			object{"metadata": object{"labels": object{"endpointslice.kubernetes.io/managed-by": nil}}},
			object{"metadata": object{"ownerReferences": nil}},
		))
	}
	r.personally(path)
}

// violated says which invariant a write breaks.
func (r *rig) violated(verb, path string, o object) {
	if old, ok := r.alien[path]; ok && verb != "create" {
		r.fatal("%s of %s, which is somebody else's: %s", verb, path, encoded(old))
	}
	delete(r.alien, path)
	if strings.HasPrefix(path, slicesPath) && verb != "delete" {
		if e := list(o, "endpoints"); len(e) != 1 || len(list(e[0].(object), "addresses")) != 1 {
			r.fatal("%s of an empty slice: %s", verb, encoded(o))
		}
	}
	r.note("holdfast %ss %s", verb, path)
}

func (r *rig) fatal(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(r.log, "\n"))
}

// work is one pass from a view that may be old, with edits in between.
func (r *rig) work() (done int) {
	if !r.chance(3) {
		r.look(r.view)
	}
	for _, a := range Decide(r.view.snapshot()).Actions {
		if r.chance(4) {
			r.edit()
			done++
		}
		_ = perform(context.Background(), r.world, r.view, a)
		done++
	}
	return done
}

func TestTheWorldBecomesAsItIsWanted(t *testing.T) {
	steps := 100_000
	if testing.Short() || raced {
		steps = 10_000
	}
	for seed := range 4 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := &rig{world: newWorld(), t: t, random: rand.New(rand.NewPCG(uint64(seed), 2)), view: newTestView(), alien: map[string]object{}}
			r.wrote = r.violated
			quiets, mirrors := 0, 0
			for n := 0; n < steps/4; n++ {
				r.edit()
				if r.chance(2) {
					n += r.work()
				}
				if r.chance(25) {
					quiets++
					mirrors += r.quiet()
				}
			}
			if mirrors < quiets/4 {
				t.Errorf("%d mirrors after %d times of quiet: too few to prove anything", mirrors, quiets)
			}
		})
	}
}

// quiet lets nobody edit, waits until nothing is to be done, and compares with
// what a dumb twin wants. It returns how many mirrors there are.
func (r *rig) quiet() int {
	broken := r.chance(4)
	if broken { // the API refuses some writes at first
		left := 3
		r.fail = func(string, string) error {
			if left--; left >= 0 {
				return status(http.StatusServiceUnavailable, "no")
			}
			return nil
		}
	}
	rounds := r.settle(r.view)
	r.fail = nil
	if rounds >= 12 {
		r.fatal("not settled after %d rounds: %+v", rounds, Decide(r.view.snapshot()).Actions)
	}
	r.collect() // which may make room where something was taken
	r.settle(r.view)
	r.collect()
	if n := r.settle(r.view); n != 0 {
		r.fatal("the garbage collector had something to do; %d rounds after it", n)
	}
	for path := range r.alien {
		if _, ok := r.objects[path]; !ok {
			delete(r.alien, path) // collected
		}
	}
	return r.compare()
}

// compare checks every object in the world against what there should be.
func (r *rig) compare() (mirrors int) {
	wanted := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[path]
		if !strings.HasPrefix(path, servicesPath) || text(sub(sub(o, "metadata"), "annotations"), annotation) != "true" || oursIs(path, o) {
			continue
		}
		spec := sub(o, "spec")
		if text(spec, "type") == "ExternalName" || text(spec, "clusterIP") == "None" {
			continue
		}
		mirror := path + "-zonal"
		m := r.objects[mirror]
		blocked := m != nil && !oursIs(mirror, m)
		for i, ip := range list(spec, "clusterIPs") {
			slice := slicesPath + mirror[len(servicesPath):]
			if list(spec, "ipFamilies")[i] == "IPv6" {
				slice += "-ipv6"
			}
			s := r.objects[slice]
			if blocked = blocked || s != nil && !oursIs(slice, s); blocked {
				continue
			}
			wanted[slice] = true
			if s == nil {
				if m != nil || r.alienSlice(mirror) == "" {
					r.fatal("no slice %s for %s", slice, encoded(o))
				}
				continue
			}
			if e := list(s, "endpoints"); len(e) != 1 || list(e[0].(object), "addresses")[0] != ip || len(list(s, "ports")) != len(list(spec, "ports")) {
				r.fatal("slice %s is %s for %s", slice, encoded(s), encoded(o))
			}
		}
		if wanted[mirror] = true; m == nil {
			if r.alienSlice(mirror) == "" {
				r.fatal("no mirror for %s", encoded(o))
			}
			continue
		}
		if blocked {
			continue
		}
		mirrors++
		if got := sub(m, "spec"); !slices.Equal(list(got, "ipFamilies"), list(spec, "ipFamilies")) || got["selector"] != nil || got["trafficDistribution"] != nil || text(got, "type") != "ClusterIP" {
			r.fatal("mirror %s for %s", encoded(m), encoded(o))
		}
	}
	for path, o := range r.objects {
		if text(sub(sub(o, "metadata"), "annotations"), annotation) == "yes" {
			return mirrors // keeps what there was
		}
		_ = path
	}
	for path, o := range r.objects {
		if oursIs(path, o) && !wanted[path] && r.objects[servicesPath+strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], "-ipv6")] == nil {
			r.fatal("%s is left over: %s", path, encoded(o))
		}
	}
	return mirrors
}

// alienSlice is a slice with one of the mirror's names that is somebody else's.
func (r *rig) alienSlice(mirror string) string {
	for _, s := range []string{"", "-ipv6"} {
		path := slicesPath + mirror[len(servicesPath):] + s
		if o := r.objects[path]; o != nil && !oursIs(path, o) {
			return path
		}
	}
	return ""
}
