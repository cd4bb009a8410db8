package services

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Annotations of a Service, and those of others that mean the same.
const (
	// AnnotationAddresses asks for addresses: "192.0.2.1,2001:db8::1", or a JSON
	// list of strings.
	AnnotationAddresses = "holdfast.dev/addresses"
	// AnnotationPool asks for an address of a pool.
	AnnotationPool = "holdfast.dev/pool"
	// AnnotationShare is a word: Services that have the same may share an address.
	AnnotationShare = "holdfast.dev/share"
)

var (
	asksAddresses = []string{
		AnnotationAddresses, "metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs",
		"kube-vip.io/loadbalancerIPs", "lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips",
	}
	asksPool  = []string{AnnotationPool, "metallb.io/address-pool", "metallb.universe.tf/address-pool"}
	asksShare = []string{
		AnnotationShare, "metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip",
		"lbipam.cilium.io/sharing-key", "io.cilium/lb-ipam-sharing-key",
	}
)

// wish is what a Service asks for.
type wish struct {
	addresses   []netip.Addr // of one family each
	pool, share string
}

// trouble is why a wish cannot be met: the reason of an Event and its sentence,
// which says what to do.
type trouble struct{ reason, message string }

// Reasons of Events.
const (
	ReasonMalformed   = "AddressMalformed"
	ReasonConflict    = "AddressAmbiguous"
	ReasonFamily      = "AddressFamily"
	ReasonOutside     = "AddressOutsidePools"
	ReasonInUse       = "AddressInUse"
	ReasonDuplicate   = "AddressDuplicate"
	ReasonUnknownPool = "PoolUnknown"
	ReasonRefused     = "PoolRefused"
	ReasonExhausted   = "PoolExhausted"
	ReasonUnpooled    = "AddressUnpooled"
	ReasonAssigned    = "AddressAssigned"
)

func troubled(reason, format string, args ...any) *trouble {
	return &trouble{reason, fmt.Sprintf(format, args...)}
}

// ParseAddresses reads what asks for addresses: "a", "a,b" or ["a", "b"].
func ParseAddresses(text string) ([]netip.Addr, error) {
	words := []string{}
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "[") {
		if err := json.Unmarshal([]byte(text), &words); err != nil {
			return nil, fmt.Errorf("%.100q is no JSON list of strings", text)
		}
	} else {
		words = strings.Split(text, ",")
	}
	var all []netip.Addr
	for _, w := range words {
		a, err := parseAddress(w)
		if err != nil {
			return nil, err
		}
		if err := check(a); err != nil {
			return nil, err
		}
		if slices.Contains(all, a) {
			return nil, fmt.Errorf("%s stands there twice", a)
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%q names no address", text)
	}
	return all, nil
}

// asked reads what a Service asks for.
func asked(s *Service) (wish, *trouble) {
	var w wish
	var by string
	sources := map[string]string{}
	for _, name := range asksAddresses {
		if text, ok := s.Metadata.Annotations[name]; ok {
			sources["annotation "+name] = text
		}
	}
	if s.Spec.Address != "" {
		sources["spec.loadBalancerIP"] = s.Spec.Address
	}
	for _, name := range sorted(sources) {
		all, err := ParseAddresses(sources[name])
		switch {
		case err != nil:
			return w, troubled(ReasonMalformed, `%s: %v; write "192.0.2.1", "192.0.2.1,2001:db8::1" or a JSON list of strings`, name, err)
		case w.addresses != nil && !sameSet(w.addresses, all):
			return w, troubled(ReasonConflict, "%s and %s ask for different addresses; remove one of them", by, name)
		}
		w.addresses, by = all, name
	}
	if t := onePerFamily(by, w.addresses, s); t != nil {
		return w, t
	}
	var t *trouble
	if w.pool, t = one(s, asksPool); t == nil {
		w.share, t = one(s, asksShare)
	}
	return w, t
}

// onePerFamily checks the families of requested addresses.
func onePerFamily(by string, all []netip.Addr, s *Service) *trouble {
	families, _ := s.families()
	for i, a := range all {
		switch f := familyOf(a); {
		case !slices.Contains(families, f):
			return troubled(ReasonFamily, "%s asks for %s, and the Service has no %s; ask for an address of %v, or add %s to spec.ipFamilies", by, a, f, families, f)
		case slices.ContainsFunc(all[:i], func(o netip.Addr) bool { return familyOf(o) == f }):
			return troubled(ReasonFamily, "%s asks for two addresses of %s; a Service has one of each family", by, f)
		}
	}
	return nil
}

// one reads an annotation that has several names.
func one(s *Service, names []string) (string, *trouble) {
	value, by := "", ""
	for _, name := range names {
		v := s.Metadata.Annotations[name]
		switch {
		case v == "":
		case value != "" && v != value:
			return "", troubled(ReasonConflict, "annotations %s and %s differ; remove one of them", by, name)
		default:
			value, by = v, name
		}
	}
	return value, nil
}

// sameSet compares lists without repetitions, whatever their order.
func sameSet[T comparable](a, b []T) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x T) bool { return !slices.Contains(b, x) })
}

func sorted(m map[string]string) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
