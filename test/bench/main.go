// Command bench measures the project beside its peers and writes bench.json.
//
// Bars stand in the rows: a figure that misses its bar is written down with
// "holds": false, and the command still ends well. Rows of parts that were not
// run keep the values of the run before.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
)

// Row is one figure of bench.json.
type Row struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Ours is nil when the thing measured never happened.
	Ours *float64 `json:"ours"`
	// Peer is the peer's figure in the same run; nil when there is no peer or
	// when what is measured never happens with it.
	Peer     *float64 `json:"peer"`
	PeerName string   `json:"peer_name,omitempty"`
	// Ratio is Ours/Peer.
	Ratio *float64 `json:"ratio"`
	// Bar is the most Ours may be, or the least where AtLeast is set.
	Bar     *float64 `json:"bar"`
	AtLeast bool     `json:"at_least,omitempty"`
	Holds   bool     `json:"holds"`
	// Note says how many runs stand behind the figure, and what it was taken from.
	Note string `json:"note,omitempty"`
}

// atMost makes a row whose figure must not exceed bar.
func atMost(name, unit string, ours, bar float64, note string) Row {
	return Row{Name: name, Unit: unit, Ours: &ours, Bar: &bar, Holds: ours <= bar, Note: note}
}

// atLeast makes a row whose figure must reach bar.
func atLeast(name, unit string, ours, bar float64, note string) Row {
	return Row{Name: name, Unit: unit, Ours: &ours, Bar: &bar, AtLeast: true, Holds: ours >= bar, Note: note}
}

// within makes a row whose figure must not exceed bar, and which misses it
// when the thing measured never happened.
func within(name, unit string, ours *float64, bar float64, note string) Row {
	return Row{Name: name, Unit: unit, Ours: ours, Bar: &bar, Holds: ours != nil && *ours <= bar, Note: note}
}

// limit prints the bar.
func (r Row) limit() string {
	switch {
	case r.Bar == nil:
		return "-"
	case r.AtLeast:
		return "≥ " + figure(r.Bar, r.Unit)
	}
	return figure(r.Bar, r.Unit)
}

// against adds the peer's figure.
func (r Row) against(name string, peer *float64) Row {
	r.PeerName, r.Peer = name, peer
	if peer != nil && r.Ours != nil && *peer != 0 {
		ratio := *r.Ours / *peer
		r.Ratio = &ratio
	}
	return r
}

// part measures one feature; quick means fewer repetitions.
type part struct {
	name string
	run  func(ctx context.Context, quick bool) ([]Row, error)
	// named says that the part runs only with --only.
	named bool
}

// A part that runs only when it is named would not fit into a coffee break.
// One whose rows are measured group by group can also be run by group.
func parts(only string) []part {
	all := []part{{"leader", benchLeader, false}, {"balance", balanceGroup(""), false}, {"slices", benchSlices, false}, {"zonal", benchZonal, false}, {"vip", vipGroup(""), false}, {"pair", benchPair, false}, {"soak", benchSoak, true}}
	if group, ok := strings.CutPrefix(only, "balance-"); ok {
		all = append(all, part{only, balanceGroup(group), true})
	}
	if group, ok := strings.CutPrefix(only, "vip-"); ok {
		all = append(all, part{only, vipGroup(group), true})
	}
	return all
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := run
	// The bench starts itself anew for what must be another process.
	if role := balanceRole(os.Args[1:]); role != nil {
		do = role
	}
	if err := do(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "run one part, or one group of rows of the parts balance and vip (balance-frozen, vip-handover)")
	out := flags.String("out", "bench.json", "file to write")
	quick := flags.Bool("quick", false, "fewer repetitions, to try the bench itself")
	doc := flags.String("doc", "", "write what stands in --out as a page to this file, and measure nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	rows, err := read(*out)
	if err != nil {
		return err
	}
	if *doc != "" {
		return os.WriteFile(*doc, []byte(page(rows)), 0o644)
	}
	ran := false
	for _, p := range parts(*only) {
		if p.name != *only && (*only != "" || p.named) {
			continue
		}
		ran = true
		measured, err := p.run(ctx, *quick)
		// What was measured before something failed counts.
		rows = replace(rows, p.name, measured)
		if err := write(*out, rows); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("part %s: %w", p.name, err)
		}
	}
	if !ran {
		return fmt.Errorf("--only %q: no such part", *only)
	}
	return print(rows)
}

// replace puts what was measured in the place of the rows of a part, and of
// rows of the same name. A part that measured nothing loses nothing.
func replace(rows []Row, part string, measured []Row) []Row {
	if len(measured) == 0 {
		return rows
	}
	old := func(r Row) bool {
		return strings.HasPrefix(r.Name, part+"-") || slices.ContainsFunc(measured, func(m Row) bool { return m.Name == r.Name })
	}
	at := slices.IndexFunc(rows, old)
	if at < 0 {
		return append(rows, measured...)
	}
	return slices.Concat(rows[:at], measured, slices.DeleteFunc(slices.Clone(rows[at:]), old))
}

func read(path string) ([]Row, error) {
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rows []Row
	if err := json.Unmarshal(b, &rows); err != nil {
		return nil, fmt.Errorf("read %s: %w; remove it", path, err)
	}
	return rows, nil
}

func write(path string, rows []Row) error {
	b, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func print(rows []Row) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "FIGURE\tOURS\tBAR\tHOLDS\tPEER\tRATIO\tNOTE")
	for _, r := range rows {
		holds := "yes"
		if !r.Holds {
			holds = "NO"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, figure(r.Ours, r.Unit), r.limit(),
			holds, strings.TrimSpace(r.PeerName+" "+figure(r.Peer, r.Unit)), figure(r.Ratio, ""), r.Note)
	}
	return w.Flush()
}

func figure(v *float64, unit string) string {
	if v == nil {
		return "-"
	}
	if *v >= 10000 { // %g would turn to exponents
		return strings.TrimSpace(fmt.Sprintf("%.0f %s", *v, unit))
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %s", *v, unit))
}
