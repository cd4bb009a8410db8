package monitoring

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// foreign are metrics of others that expressions may name.
var foreign = map[string]metric{"up": {name: "up"}}

// complaints are what is wrong with an expression: Prometheus cannot parse it, or it asks
// for a metric or a label that nobody makes.
func complaints(expr string, known map[string]metric) (all []string) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	seen := map[string]metric{}
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m, ok := known[s.Name]
		if !ok {
			all = append(all, fmt.Sprintf("%s: no such metric", s.Name))
			return nil
		}
		seen[s.Name] = m
		for _, match := range s.LabelMatchers {
			if !m.has(match.Name) {
				all = append(all, fmt.Sprintf("%s: has no label %s", s.Name, match.Name))
			}
		}
		return nil
	})
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			all = append(all, unknownLabels(n.Grouping, seen)...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				all = append(all, unknownLabels(n.VectorMatching.MatchingLabels, seen)...)
			}
		}
		return nil
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// unknownLabels are those that no metric of the expression has.
func unknownLabels(labels []string, seen map[string]metric) (all []string) {
	for _, label := range labels {
		found := false
		for _, m := range seen {
			found = found || m.has(label)
		}
		if !found {
			all = append(all, fmt.Sprintf("label %s: no metric of the expression has it", label))
		}
	}
	return all
}
