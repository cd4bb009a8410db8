package lab

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// writeReport prints a report for people.
func writeReport(w io.Writer, r Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "lab %s: %d sites, preset %s, kernel %s, delays by %s, etcd %s, data in %s\n",
		r.Name, len(r.Sites), orDash(r.Environment["preset"]), r.Environment["kernel"], r.Environment["links"], r.Environment["etcd"], r.Environment["data"])
	fmt.Fprintf(&b, "run directory %s, supervisor %d\n\n", r.Dir, r.Pid)
	writeNodes(&b, r)
	table(&b, "LINK\tMADE BY\tDELAY\tJITTER\tRATE\tLOSS\tROUND TRIP", len(r.Links), func(i int) string {
		l := r.Links[i]
		return fmt.Sprintf("%s-%s\t%s\t%s\t%s\t%s\t%s\t%s", l.A, l.B, l.Method, millis(l.DelayMS), millis(l.JitterMS),
			rateWords(l.RateBPS), percent(l.Loss), millis(l.RTTMS))
	})
	if len(r.Members) > 0 {
		table(&b, "MEMBER\tCLUSTER\tCLIENT URL\tLEADER\tTERM\tREVISION\tSTATE", len(r.Members), func(i int) string {
			return memberWords(r.Members[i])
		})
	}
	if len(r.APIServers) > 0 {
		table(&b, "APISERVER\tURL\tSTATE", len(r.APIServers), func(i int) string {
			return apiserverWords(r.APIServers[i])
		})
	}
	writeComponents(&b, r)
	if len(r.Cuts) == 0 {
		b.WriteString("No cut is in force.\n")
	} else {
		table(&b, "CUT\tTAKES\tSINCE", len(r.Cuts), func(i int) string {
			c := r.Cuts[i]
			return fmt.Sprintf("%s\t%s\t%s", c.Name, c.What, c.Since.Format("15:04:05.000"))
		})
	}
	writeMatrix(&b, r)
	for _, m := range r.Mismatches {
		fmt.Fprintf(&b, "MISMATCH: %s\n", m)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeNodes has a column for the state of Nodes where there are any.
func writeNodes(b *strings.Builder, r Report) {
	head, states := "NODE\tSITE\tIPV4\tIPV6", len(r.Components) > 0
	if states {
		head += "\tKUBERNETES"
	}
	table(b, head, len(r.Nodes), func(i int) string {
		n := r.Nodes[i]
		row := fmt.Sprintf("%s\t%s\t%s\t%s", n.Name, siteWords(r.Sites, n.Site), n.IP, n.IP6)
		if states {
			row += "\t" + orDash(n.State)
		}
		return row
	})
}

// writeComponents prints a row for each Kubernetes program with a column for
// each node, and below what those that are not well say.
func writeComponents(b *strings.Builder, r Report) {
	var kinds []string
	cells := map[[2]string]ComponentReport{}
	for _, c := range r.Components {
		if !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
		cells[[2]string{c.Kind, c.Node}] = c
	}
	if len(kinds) == 0 {
		return
	}
	head := "COMPONENT"
	for _, n := range r.Nodes {
		head += "\t" + n.Name
	}
	table(b, head, len(kinds), func(i int) string {
		row := kinds[i]
		for _, n := range r.Nodes {
			c, ok := cells[[2]string{kinds[i], n.Name}]
			row += "\t" + componentWord(c, ok)
		}
		return row
	})
	for _, c := range r.Components {
		if c.Error != "" {
			fmt.Fprintf(b, "%s\n\n", c.Error)
		}
	}
}

func componentWord(c ComponentReport, exists bool) string {
	switch {
	case !exists:
		return "-"
	case !c.Running:
		return "stopped"
	case !c.Healthy:
		return "unwell"
	}
	return "well"
}

func table(b *strings.Builder, head string, n int, row func(int) string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, head)
	for i := range n {
		_, _ = fmt.Fprintln(w, row(i))
	}
	_ = w.Flush() // a strings.Builder takes everything
	b.WriteString("\n")
}

// letters stand for the kinds in the printed matrix.
var letters = []struct {
	kind   Kind
	letter string
}{{KindUDP, "u"}, {KindUDP6, "6"}, {KindFlow, "f"}, {KindVXLAN, "v"}, {KindNew, "n"}, {KindKept, "k"}}

// writeMatrix prints who (row) reaches whom (column): "all", "-" for nobody,
// or the letters of what is open.
func writeMatrix(b *strings.Builder, r Report) {
	cells := map[[2]string]Cell{}
	for _, c := range r.Matrix {
		cells[[2]string{c.From, c.To}] = c
	}
	head := "FROM\\TO"
	for _, n := range r.Nodes {
		head += "\t" + n.Name
	}
	partial := false
	table(b, head, len(r.Nodes), func(i int) string {
		row := r.Nodes[i].Name
		for j, n := range r.Nodes {
			word := "."
			if i != j {
				word = openWords(cells[[2]string{r.Nodes[i].Name, n.Name}])
				partial = partial || word != "all" && word != "-"
			}
			row += "\t" + word
		}
		return row
	})
	if partial {
		b.WriteString("Open are: u new UDP, 6 over IPv6, f old UDP flow, v VXLAN, n new TCP, k kept TCP.\n")
	}
}

func openWords(c Cell) string {
	s := ""
	for _, l := range letters {
		if c.Open[l.kind] {
			s += l.letter
		}
	}
	var closed []string
	for _, k := range sortedKinds(c.Open) {
		if _, _, ok := k.split(); ok && !c.Open[k] {
			closed = append(closed, string(k))
		}
	}
	switch {
	case s == "":
		return "-"
	case len(s) < len(letters):
		return s
	case len(closed) > 0:
		return "all but " + strings.Join(closed, " ")
	}
	return "all"
}

func memberWords(m MemberReport) string {
	if m.Status == nil {
		state := "stopped"
		if m.Running {
			state = "does not answer"
		}
		return fmt.Sprintf("%s\t%s\t%s\t-\t-\t-\t%s", m.Name, m.Cluster, m.ClientURL, state)
	}
	state := "follows"
	switch {
	case m.Status.Leader == 0:
		state = "has no leader"
	case m.Status.Leader == m.Status.ID:
		state = "leads"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%d\t%s", m.Name, m.Cluster, m.ClientURL, orDash(m.LeaderName), m.Status.Term, m.Status.Revision, state)
}

func apiserverWords(a APIServerReport) string {
	state := "ready"
	switch {
	case !a.Running:
		state = "stopped"
	case !a.Ready:
		state = "not ready: " + a.Error
	}
	return fmt.Sprintf("%s\t%s\t%s", a.Name, a.URL, state)
}

func siteWords(sites []Site, name string) string {
	for _, s := range sites {
		if s.Name == name && s.Witness {
			return name + " (witness)"
		}
	}
	return name
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func millis(v float64) string {
	if v == 0 {
		return "-"
	}
	if v < 1 {
		return fmt.Sprintf("%.2f ms", v)
	}
	return fmt.Sprintf("%.1f ms", v)
}

func rateWords(bps uint64) string {
	if bps == 0 {
		return "-"
	}
	return fmt.Sprintf("%g Mbit/s", float64(bps)/1e6)
}

func percent(share float64) string {
	if share == 0 {
		return "-"
	}
	return fmt.Sprintf("%g %%", share*100)
}
