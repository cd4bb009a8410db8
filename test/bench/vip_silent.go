package main

import (
	"context"
	"fmt"
	"time"
)

func (y *yard) silent100(ctx context.Context) ([]Row, error) {
	return y.silent(ctx, "vip-silent-100ms", 100*time.Millisecond, y.times(11), true)
}

func (y *yard) silent10(ctx context.Context) ([]Row, error) {
	return y.silent(ctx, "vip-silent-10ms", 10*time.Millisecond, y.times(11), false)
}

func (y *yard) silent1000(ctx context.Context) ([]Row, error) {
	return y.silent(ctx, "vip-silent-1s", time.Second, y.times(5), false)
}

const (
	// silentBar and peerBar are the bars for adverts every 100 ms: 3 adverts and
	// a skew of 22 ms less half an interval on the average.
	silentBar = 300
	peerBar   = 1.05
)

// silent lets no frame of the holder through any more, without its noticing.
func (y *yard) silent(ctx context.Context, name string, interval time.Duration, n int, barred bool) ([]Row, error) {
	a, err := y.arena(3)
	if err != nil {
		return nil, err
	}
	defer a.close()
	rivals := []rival{ourVRRP(interval, ""), keepalived(interval, "", ""), vrrpd(interval)}
	got, err := a.bout(ctx, rivals, n, fallSilent)
	if err != nil {
		return nil, err
	}
	return silentRows(name, rivals, got, barred), nil
}

func fallSilent(ctx context.Context, a *arena, r rival, k, n int) (round, error) {
	if err := a.adverts.phase(ctx, time.Duration((float64(k)+0.5)/float64(n)*float64(r.interval))); err != nil {
		return round{}, err
	}
	begun := time.Now()
	if err := a.segment.Station(1).Silence(); err != nil {
		return round{}, err
	}
	return a.watch(ctx, r, begun, 10*time.Second, 500*time.Millisecond)
}

func silentRows(name string, rivals []rival, got [][]round, barred bool) []Row {
	ours, beside := tookOf(got[0]), tookOf(got[1])
	note := fmt.Sprintf("median of %d, silent at even points between two adverts, the same for all; worst %s ms, peer %s ms; %s",
		len(ours), figure(last(ours), ""), figure(last(beside), ""), load())
	row := reportedMaybe(name, "ms", middle(ours), note)
	if barred {
		row = within(name, "ms", middle(ours), silentBar, note)
	}
	rows := []Row{row.against(rivals[1].name, middle(beside))}
	if barred {
		rows = append(rows, ratioRow(name+"-ratio", middle(ours), middle(beside), rivals[1].name))
	}
	third := tookOf(got[2])
	rows = append(rows, reportedMaybe(name+"-frr", "ms", middle(ours), fmt.Sprintf("as above; worst of the peer %s ms", figure(last(third), ""))).
		against(rivals[2].name, middle(third)))
	return append(rows, staleRow(name+"-stale", rivals, got))
}

// ratioRow holds ours to at most 5 % more than the peer.
func ratioRow(name string, ours, peer *float64, beside string) Row {
	var ratio *float64
	if ours != nil && peer != nil && *peer > 0 {
		r := *ours / *peer
		ratio = &r
	}
	return within(name, "x", ratio, peerBar, "ours by "+beside+", of the medians above")
}

// reportedMaybe makes a row without a bar of what may never have happened.
func reportedMaybe(name, unit string, ours *float64, note string) Row {
	return Row{Name: name, Unit: unit, Ours: ours, Holds: true, Note: note + "; reported, no bar"}
}
