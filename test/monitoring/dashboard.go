package monitoring

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// kind is how Grafana draws a panel.
type kind string

const (
	lines kind = "timeseries"
	// states draws a value of few words over time, a line per series.
	states kind = "state-timeline"
	number kind = "stat"
	list   kind = "table"
)

// panel is one picture of the dashboard.
type panel struct {
	title string
	kind  kind
	// unit is one of Grafana's: s, bytes, percentunit, short; "" for short.
	unit string
	// width is in 24ths of the screen.
	width int
	// words names values, for states and numbers; the first is 0, or -1 if there are
	// three.
	words   []string
	queries []query
	help    string
}

// query is an expression with the name of its series. "$c" stands for the choice of
// clusters.
type query struct{ expr, legend string }

// row is a part of the dashboard with its panels.
type row struct {
	title  string
	panels []panel
}

// colours of words in their order, from bad to good; of three the first is unknown.
var colours = map[int][]string{2: {"red", "green"}, 3: {"text", "red", "green"}}

const (
	columns = 24
	height  = 7
	// choice is what "$c" stands for. It matches series without the label too.
	choice = `cluster=~"$cluster"`
)

// dashboard is the JSON that Grafana imports.
func dashboard(rows []row) ([]byte, error) {
	var panels []any
	id, y := 0, 0
	for _, r := range rows {
		id++
		panels = append(panels, map[string]any{
			"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []any{},
			"gridPos": map[string]int{"h": 1, "w": columns, "x": 0, "y": y},
		})
		y++
		x := 0
		for _, p := range r.panels {
			if x+p.width > columns {
				x, y = 0, y+height
			}
			id++
			panels = append(panels, p.draw(id, x, y))
			x += p.width
		}
		y += height
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(map[string]any{
		"uid": "holdfast", "title": "Holdfast", "tags": []string{"holdfast"}, "schemaVersion": 39, "editable": true,
		"refresh": "10s", "time": map[string]string{"from": "now-1h", "to": "now"}, "panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			map[string]any{
				"name": "cluster", "label": "Cluster", "type": "query", "datasource": source, "refresh": 2,
				"query": "label_values(up, cluster)", "includeAll": true, "multi": true, "allValue": ".*",
				"current": map[string]any{"text": "All", "value": "$__all"},
			},
		}},
	})
	return out.Bytes(), err
}

var source = map[string]string{"type": "prometheus", "uid": "${datasource}"}

// draw gives a panel its place.
func (p panel) draw(id, x, y int) map[string]any {
	var targets []any
	for i, q := range p.queries {
		t := map[string]any{
			"refId": string(rune('A' + i)), "datasource": source, "legendFormat": q.legend,
			"expr": strings.ReplaceAll(q.expr, "$c", choice),
		}
		if p.kind == number || p.kind == list {
			t["instant"] = true
		}
		if p.kind == list {
			t["format"] = "table"
		}
		targets = append(targets, t)
	}
	unit := p.unit
	if unit == "" {
		unit = "short"
	}
	defaults := map[string]any{"unit": unit}
	if p.words != nil {
		defaults["mappings"] = mappings(p.words)
	}
	return map[string]any{
		"id": id, "type": string(p.kind), "title": p.title, "description": p.help, "datasource": source,
		"gridPos": map[string]int{"h": height, "w": p.width, "x": x, "y": y}, "targets": targets,
		"fieldConfig": map[string]any{"defaults": defaults, "overrides": []any{}}, "options": p.options(),
	}
}

func (p panel) options() map[string]any {
	switch p.kind {
	case number:
		return map[string]any{"colorMode": "background", "reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}}
	case states:
		return map[string]any{"showValue": "never", "mergeValues": true, "legend": map[string]any{"showLegend": true}}
	}
	return map[string]any{}
}

// mappings name values and colour them.
func mappings(words []string) []any {
	options, first := map[string]any{}, 0
	if len(words) == 3 {
		first = -1
	}
	for i, w := range words {
		options[strconv.Itoa(first+i)] = map[string]any{"text": w, "index": i, "color": colours[len(words)][i]}
	}
	return []any{map[string]any{"type": "value", "options": options}}
}
