package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// DocumentVersion is the schema version of Document. A field may be added
// within a version; renaming or removing one needs a new version.
const DocumentVersion = 1

// Document is what `holdfast probe --json` prints. Durations are in
// milliseconds.
type Document struct {
	Version int            `json:"version"`
	Prober  ProberDocument `json:"prober"`
	Paths   []PathDocument `json:"paths"`
}

// ProberDocument is the prober's judgement of itself.
type ProberDocument struct {
	Starved  bool    `json:"starved"`
	Reason   string  `json:"reason,omitempty"`
	MaxLagMS float64 `json:"max_lag_ms"`
}

// PathDocument is the Summary of a path.
type PathDocument struct {
	Path         string            `json:"path"`
	URL          string            `json:"url"`
	Kind         Kind              `json:"kind"`
	Mode         Mode              `json:"mode"`
	Control      bool              `json:"control,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	First        time.Time         `json:"first"`
	Last         time.Time         `json:"last"`
	Samples      int               `json:"samples"`
	Failed       int               `json:"failed"`
	Slow         int               `json:"slow"`
	Lost         int               `json:"lost_ticks"`
	P50MS        float64           `json:"p50_ms"`
	P90MS        float64           `json:"p90_ms"`
	P99MS        float64           `json:"p99_ms"`
	MaxMS        float64           `json:"max_ms"`
	MaxLagMS     float64           `json:"max_lag_ms"`
	Errors       map[Class]int     `json:"errors,omitempty"`
	Outages      int               `json:"outages"`
	TotalLowerMS float64           `json:"total_lower_ms"`
	TotalUpperMS float64           `json:"total_upper_ms"`
	Longest      *GapDocument      `json:"longest,omitempty"`
	// RecoveryMS is from the first failure of the last outage to a stable
	// recovery; null without outages, and while there is none.
	RecoveryMS *float64      `json:"recovery_ms"`
	Gaps       []GapDocument `json:"gaps,omitempty"`
	// Route is there for a route that the kernel told of.
	Route *RouteDocument `json:"route,omitempty"`
}

// RouteDocument is what became of the next hops of a route.
type RouteDocument struct {
	Changes int `json:"changes"`
	Fewest  int `json:"fewest"`
	// Hops are those found at first and after each change, the newest 1000.
	Hops []HopsDocument `json:"hops"`
}

// HopsDocument is a Hops.
type HopsDocument struct {
	Since time.Time `json:"since"`
	Count int       `json:"count"`
	Via   []string  `json:"via"`
}

// GapDocument is a Gap.
type GapDocument struct {
	From    time.Time     `json:"from"`
	To      time.Time     `json:"to"`
	LowerMS float64       `json:"lower_ms"`
	UpperMS float64       `json:"upper_ms"`
	Open    bool          `json:"open,omitempty"`
	Errors  map[Class]int `json:"errors"`
	First   string        `json:"first_error,omitempty"`
}

// Document returns the state of the board as a document.
func (b *Board) Document() Document {
	why := b.Starved()
	d := Document{Version: DocumentVersion, Prober: ProberDocument{Starved: why != "", Reason: why}, Paths: []PathDocument{}}
	for i, s := range b.Summaries() {
		d.Prober.MaxLagMS = max(d.Prober.MaxLagMS, ms(s.Lag.Max))
		d.Paths = append(d.Paths, s.document(b.rows[i].path))
	}
	return d
}

func (s Summary) document(p *Path) PathDocument {
	d := PathDocument{
		Path: s.Path, URL: p.URL.String(), Kind: p.Kind, Mode: p.Mode, Control: p.Control, Labels: p.Labels,
		First: s.First, Last: s.Last, Samples: s.Samples, Failed: s.Failed, Slow: s.Slow, Lost: s.Lost,
		P50MS: ms(s.Latency.P50), P90MS: ms(s.Latency.P90), P99MS: ms(s.Latency.P99), MaxMS: ms(s.Latency.Max),
		MaxLagMS: ms(s.Lag.Max), Errors: s.Errors, Outages: s.Outages,
		TotalLowerMS: ms(s.TotalLower), TotalUpperMS: ms(s.TotalUpper),
	}
	if s.Longest != nil {
		g := s.Longest.document()
		d.Longest = &g
	}
	if s.Recovery != nil {
		r := ms(*s.Recovery)
		d.RecoveryMS = &r
	}
	for _, g := range s.Gaps {
		d.Gaps = append(d.Gaps, g.document())
	}
	if len(s.Hops) > 0 {
		d.Route = &RouteDocument{Changes: s.HopChanges, Fewest: s.FewestHops}
	}
	for _, h := range s.Hops {
		d.Route.Hops = append(d.Route.Hops, HopsDocument{h.Since, len(h.Via), h.Via})
	}
	return d
}

func (g Gap) document() GapDocument {
	return GapDocument{From: g.From(), To: g.To(), LowerMS: ms(g.Lower()), UpperMS: ms(g.Upper()),
		Open: g.Open, Errors: g.Errors, First: g.First}
}

// ms is d in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func writeDocument(out io.Writer, board *Board) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(board.Document()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// writeTable prints the summary for people.
func writeTable(out io.Writer, board *Board, once bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if once {
		writeOnce(w, board)
	} else {
		writeSummaries(w, board.Summaries())
	}
	if why := board.Starved(); why != "" {
		_, _ = fmt.Fprintf(w, "\nDo not trust these figures: %s.\n", why)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func writeSummaries(w io.Writer, all []Summary) {
	_, _ = fmt.Fprintln(w, "PATH\tSAMPLES\tFAILED\tSLOW\tP50\tP99\tOUTAGES\tLONGEST\tRECOVERY\tERRORS")
	for _, s := range all {
		longest, recovery := "-", "-"
		if s.Longest != nil {
			longest, recovery = bounds(*s.Longest), "none"
		}
		if s.Recovery != nil {
			recovery = short(*s.Recovery)
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%d\t%s\t%s\t%s\n", s.Path, s.Samples, s.Failed, s.Slow,
			latency(s, s.Latency.P50), latency(s, s.Latency.P99), s.Outages, longest, recovery, tallyWords(s.Errors))
	}
	for _, s := range all {
		if len(s.Hops) > 0 {
			_, _ = fmt.Fprintf(w, "\n%s: %s\n", s.Path, s.turns())
		}
	}
}

// latency leaves the place empty when no sample was good.
func latency(s Summary, d time.Duration) string {
	if s.Samples == s.Failed {
		return "-"
	}
	return short(d)
}

func writeOnce(w io.Writer, board *Board) {
	_, _ = fmt.Fprintln(w, "PATH\tRESULT\tTIME\tCODE\tERROR")
	for _, r := range board.rows {
		s := r.tally.Last()
		if s.Path == "" {
			_, _ = fmt.Fprintf(w, "%s\tnot sampled\t-\t-\t\n", r.path.Name)
			continue
		}
		code := "-"
		if r.path.Kind == KindHTTP {
			code = fmt.Sprintf("%03d", s.Code)
		}
		text := s.Error
		if s.OK && s.Hops != nil {
			text = "next hops " + Hops{Via: s.Hops}.String()
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Path, or(string(s.Class), "ok"), short(s.Latency()), code, text)
	}
}
