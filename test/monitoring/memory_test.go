package monitoring

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// sample is one value at a time in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// memory is a storage for a few series; samples come in the order of time.
type memory struct{ series []*held }

type held struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func (m *memory) add(l labels.Labels, at int64, value float64) {
	i := slices.IndexFunc(m.series, func(h *held) bool { return labels.Equal(h.labels, l) })
	if i < 0 {
		i, m.series = len(m.series), append(m.series, &held{labels: l})
	}
	m.series[i].samples = append(m.series[i].samples, sample{at, value})
}

// Querier implements storage.Queryable.
func (m *memory) Querier(from, to int64) (storage.Querier, error) { return reader{m, from, to}, nil }

type reader struct {
	memory   *memory
	from, to int64
}

// Select implements storage.Querier.
func (r reader) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &listed{}
	for _, h := range r.memory.series {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(h.labels.Get(m.Name)) }) {
			continue
		}
		var in []chunks.Sample
		for _, s := range h.samples {
			if s.T() >= r.from && s.T() <= r.to {
				in = append(in, s)
			}
		}
		set.series = append(set.series, storage.NewListSeries(h.labels, in))
	}
	slices.SortFunc(set.series, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return set
}

func (reader) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (reader) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (reader) Close() error { return nil }

// listed is a storage.SeriesSet.
type listed struct {
	series []storage.Series
	next   int
}

func (l *listed) Next() bool                        { l.next++; return l.next <= len(l.series) }
func (l *listed) At() storage.Series                { return l.series[l.next-1] }
func (l *listed) Err() error                        { return nil }
func (l *listed) Warnings() annotations.Annotations { return nil }
