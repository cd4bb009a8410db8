package topology

// Zones is an order of preference among zones, best first.
type Zones []string

// Rank is the position of zone in the order; a zone that is not listed ranks
// after all that are.
func (z Zones) Rank(zone string) int {
	for i, name := range z {
		if name == zone {
			return i
		}
	}
	return len(z)
}
