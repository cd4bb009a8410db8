package leader

import (
	"testing"
	"time"
)

// home is a healthy cluster led by a, with c in the preferred zone.
func home() (Config, State, Snapshot) {
	cfg, snap := Default(), split()
	cfg.Preferred = "z"
	snap.Own.Links[idB] = up(time.Hour)
	edit(&snap, idB, func(r *Row) { r.Leader, r.LeaderlessFor, r.Links[idA] = idA, 0, up(time.Hour) })
	edit(&snap, idC, func(r *Row) { r.Zone = "z" })
	return cfg, State{begun: true, term: 4, decided: snap.Now, standing: []standing{{idB, 0}, {idC, 0}}}, snap
}

func TestReturn(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config, *State, *Snapshot)
		want   Refusal
	}{
		{"all is well", func(*Config, *State, *Snapshot) {}, ""},
		{"no zone is preferred", func(c *Config, _ *State, _ *Snapshot) { c.Preferred = "" }, NobodyLost},
		{"already there", func(_ *Config, _ *State, s *Snapshot) { s.Own.Zone = "z" }, NobodyLost},
		{"nobody fit is there", func(_ *Config, _ *State, s *Snapshot) {
			edit(s, idC, func(r *Row) { r.Alarms = []string{"NOSPACE"} })
		}, NobodyLost},
		{"a link is young", func(_ *Config, _ *State, s *Snapshot) {
			s.Own.Links[idB] = up(time.Minute)
			edit(s, idB, func(r *Row) { r.Links[idA] = up(time.Minute) })
		}, ReturnWaiting},
		{"a link is down", func(_ *Config, _ *State, s *Snapshot) {
			edit(s, idB, func(r *Row) { r.Links[idC] = down(time.Minute) })
			edit(s, idC, func(r *Row) { r.Links[idB] = down(time.Minute) })
		}, ReturnWaiting},
		{"b is silent", func(_ *Config, _ *State, s *Snapshot) { delete(s.Rows, idB) }, ReturnWaiting},
		{"busy", func(_ *Config, _ *State, s *Snapshot) { s.QuietFor = 0 }, ReturnWaiting},
		{"c would lead slowly", func(_ *Config, _ *State, s *Snapshot) {
			slow := Link{State: Up, Since: time.Hour, RTT: 40 * time.Millisecond}
			s.Own.Links[idC] = slow
			edit(s, idC, func(r *Row) { r.Links[idA], r.Links[idB] = slow, slow })
			edit(s, idB, func(r *Row) { r.Links[idC] = slow })
		}, ReturnWaiting},
		{"moved a minute ago", func(_ *Config, st *State, s *Snapshot) {
			s.Penalty = Penalty{Seq: 1, Value: 1}
			st.penalty = sighting{s.Penalty, s.Now - time.Minute}
		}, Damped},
		{"b is lost", func(_ *Config, _ *State, s *Snapshot) {
			edit(s, idB, func(r *Row) { r.Leader = 0 })
		}, LinkUncertain},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg, st, snap := home()
			test.change(&cfg, &st, &snap)
			_, plan := Decide(cfg, st, snap)
			if plan.Refused != test.want {
				t.Errorf("refused %q, want %q", plan.Refused, test.want)
			}
			if plan.Move != nil && Confirm(cfg, st, snap, *plan.Move) != "" {
				t.Errorf("not confirmed: %q", Confirm(cfg, st, snap, *plan.Move))
			}
		})
	}
}
