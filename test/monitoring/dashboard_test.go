package monitoring

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the dashboard anew")

const dashboardFile = root + "/deploy/grafana/holdfast.json"

func TestDashboard(t *testing.T) {
	want, err := dashboard(rows)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(dashboardFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the dashboard is not what this package makes: go test -update writes it anew")
	}
}

// drawn is what of a panel is looked at.
type drawn struct {
	ID      int
	Title   string
	Type    string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ Expr string }
}

// plainly puts values in place of Grafana's variables.
var plainly = strings.NewReplacer("$cluster", "prod", "$__rate_interval", "5m")

func TestDashboardAsksForWhatIsThere(t *testing.T) {
	data, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var board struct{ Panels []drawn }
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	metrics := known(t)
	metrics["ALERTS"] = metric{name: "ALERTS"}
	wings := map[string]bool{}
	for i, p := range board.Panels {
		for _, other := range board.Panels[:i] {
			if overlap(p, other) {
				t.Errorf("%s lies over %s", p.Title, other.Title)
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, c := range complaints(plainly.Replace(target.Expr), metrics) {
				t.Errorf("%s: %s: %s", p.Title, target.Expr, c)
			}
			if !strings.Contains(target.Expr, choice) {
				t.Errorf("%s: %s: pays no heed to the choice of clusters", p.Title, target.Expr)
			}
			for _, wing := range []string{"leader", "pair", "balance", "slices", "zonal", "vip", "vip_bgp", "vip_bfd", "vip_service", "drill"} {
				wings[wing] = wings[wing] || strings.Contains(target.Expr, "holdfast_"+wing+"_")
			}
		}
	}
	for wing, seen := range wings {
		if !seen {
			t.Errorf("nothing shows %s", wing)
		}
	}
}

func overlap(a, b drawn) bool {
	p, q := a.GridPos, b.GridPos
	return a.ID == b.ID || p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H
}
