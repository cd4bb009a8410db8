package landing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Chance is how likely it may be, at most, that a datapath which passes hints
// over looks well.
const Chance = 0.001

// Verdict is what the connections of a node show.
type Verdict string

// The verdicts.
const (
	Kept    Verdict = "kept"    // all landed on endpoints that were hinted
	Strays  Verdict = "strays"  // some landed elsewhere
	Unclear Verdict = "unclear" // it cannot be told
)

// Answer is the outcome of one connection.
type Answer struct {
	Print Print
	// Err is why there was none.
	Err error
}

// Trial is what was tried at one time.
type Trial struct {
	Node, Zone string
	Endpoints  []Endpoint
	// Shown are the answers of the endpoints themselves, by address.
	Shown map[string]Answer
	// Got are those of connections to the Service.
	Got []Answer
	// Affinity says that the Service keeps a client with one endpoint.
	Affinity bool
	// Cause is what keeps this node's datapath from honouring zones, with the
	// remedy, should there be strays.
	Cause string
}

// Row is one endpoint in a Result.
type Row struct {
	Address string `json:"address"`
	Node    string `json:"node"`
	Zone    string `json:"zone"`
	Ready   bool   `json:"ready"`
	// Hinted says that it has a hint for the zone of the node.
	Hinted bool `json:"hinted"`
	// Certificate is the SHA-256 of what it shows, shortened; "" when it did not
	// answer, and then Error says why.
	Certificate string `json:"certificate"`
	Error       string `json:"error,omitempty"`
	// Connections are those that were answered with this certificate.
	Connections int `json:"connections"`
}

// Result is the verdict and what it rests on.
type Result struct {
	Verdict Verdict `json:"verdict"`
	// Reason is one line, with the remedy where there is one.
	Reason string `json:"reason"`
	Rows   []Row  `json:"endpoints"`
	Count  int    `json:"count"`
	// Strays, Lost and Strangers count connections.
	Strays    int `json:"strays"`
	Lost      int `json:"lost"`
	Strangers int `json:"strangers"`
	// LostBy is why the first of those that were lost was.
	LostBy string `json:"lost_by,omitempty"`
}

// Judge says what a trial shows.
func (t *Trial) Judge() Result {
	expected := Expect(t.Node, t.Zone, t.Endpoints)
	book := Book{}
	for address, a := range t.Shown {
		if a.Err == nil {
			book[address] = a.Print
		}
	}
	r := Result{Count: len(t.Got), Rows: t.rows(book)}
	var doubtful, missed []string
	for _, got := range t.Got {
		if got.Err != nil {
			if r.Lost++; r.LostBy == "" {
				r.LostBy = got.Err.Error()
			}
			continue
		}
		who := book.Who(got.Print)
		switch placeOf(who, &expected) {
		case strayed:
			r.Strays++
			missed = add(missed, who)
		case either:
			doubtful = add(doubtful, who)
		case stranger:
			r.Strangers++
		}
	}
	r.Verdict, r.Reason = t.conclude(&expected, &r, missed, doubtful)
	return r
}

func add(to, more []string) []string {
	to = append(to, more...)
	slices.Sort(to)
	return slices.Compact(to)
}

// conclude weighs what was counted; the worst that is certain comes first.
func (t *Trial) conclude(e *Expectation, r *Result, missed, doubtful []string) (Verdict, string) {
	mute := t.mute()
	switch {
	case r.Count == 0:
		return Unclear, "no connection was made: give --count of at least 1"
	case e.Doubt != "":
		return Unclear, e.Doubt
	case r.Strays > 0:
		return Strays, fmt.Sprintf("%d of %d connections left zone %s, to %s: %s", r.Strays, r.Count, t.Zone, list(missed), t.Cause)
	case len(doubtful) > 0:
		return Unclear, fmt.Sprintf("%s show the same certificate, so it cannot be told which one answered: give each apiserver a certificate of its own, or look with conntrack -L", strings.Join(doubtful, " and "))
	case r.Strangers > 0 && len(mute) > 0:
		return Unclear, fmt.Sprintf("%d of %d connections were answered with a certificate of nobody that could be asked, and %s did not answer: open the way there from this node", r.Strangers, r.Count, list(mute))
	case r.Strangers > 0:
		return Unclear, fmt.Sprintf("%d of %d connections were answered with a certificate that no endpoint shows: find out who answers at the address of the Service", r.Strangers, r.Count)
	case r.Lost == r.Count:
		return Unclear, fmt.Sprintf("no connection was answered (%v): see whether kube-proxy runs on this node", t.Got[0].Err)
	case r.Lost > 0 && len(mute) > 0:
		return Unclear, fmt.Sprintf("%d of %d connections were lost, maybe to %s, which did not answer: open the way there from this node, and try again", r.Lost, r.Count, list(mute))
	case r.Lost > 0:
		return Unclear, fmt.Sprintf("%d of %d connections were lost: try again when every endpoint answers", r.Lost, r.Count)
	case t.Affinity:
		return Unclear, "sessionAffinity of the Service is ClientIP, which keeps this node with one endpoint: set it to None and try again"
	case math.Pow(e.share(), float64(r.Count)) > Chance:
		return Unclear, fmt.Sprintf("%d connections are too few to tell: use --count %d", r.Count, enough(e.share()))
	}
	return Kept, fmt.Sprintf("%d of %d connections stayed with the endpoints of zone %s", r.Count, r.Count, t.Zone)
}

// enough is how many connections tell.
func enough(share float64) int { return int(math.Ceil(math.Log(Chance) / math.Log(share))) }

// mute are the endpoints that did not answer.
func (t *Trial) mute() []string {
	var all []string
	for i := range t.Endpoints {
		address := t.Endpoints[i].Address
		if a, asked := t.Shown[address]; (!asked || a.Err != nil) && !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

func (t *Trial) rows(book Book) []Row {
	rows := make([]Row, 0, len(t.Endpoints))
	for i := range t.Endpoints {
		e := &t.Endpoints[i]
		row := Row{
			Address: e.Address, Node: e.Node, Zone: e.Zone, Ready: e.Ready, Hinted: t.Zone != "" && slices.Contains(e.Hints, t.Zone),
		}
		shown, known := book[e.Address]
		if known {
			row.Certificate = shown.String()
		} else if err := t.Shown[e.Address].Err; err != nil {
			row.Error = err.Error()
		}
		for _, got := range t.Got {
			if known && got.Err == nil && got.Print == shown {
				row.Connections++
			}
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Address, b.Address)) })
	return rows
}
