package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// etcdInfo is what a must-gather has of etcd: what etcdctl printed as JSON, a file for
// each of its commands. Numbers of members are as of the gathering.
type etcdInfo struct {
	at      fact.Location
	members []struct {
		ID         uint64   `json:"ID"`
		Name       string   `json:"name"`
		PeerURLs   []string `json:"peerURLs"`
		ClientURLs []string `json:"clientURLs"`
		Learner    bool     `json:"isLearner"`
	}
	status []struct {
		Endpoint string `json:"Endpoint"`
		Status   struct {
			Header struct {
				Member uint64 `json:"member_id"`
			} `json:"header"`
			Version string `json:"version"`
			DBSize  int64  `json:"dbSize"`
			Leader  uint64 `json:"leader"`
		} `json:"Status"`
	}
	health []struct {
		Endpoint string `json:"endpoint"`
		Health   bool   `json:"health"`
		Error    string `json:"error"`
	}
	alarms []struct {
		Member uint64 `json:"memberID"`
		Alarm  int    `json:"alarm"`
	}
}

// isEtcdInfo says by its name that a file is one of a must-gather's about etcd.
func isEtcdInfo(name string) bool {
	if path.Base(path.Dir(name)) != "etcd_info" {
		return false
	}
	switch path.Base(name) {
	case "member_list.json", "endpoint_status.json", "endpoint_health.json", "alarm_list.json":
		return true
	}
	return false
}

func (r *reader) etcdInfo(e entry) error {
	data, err := r.whole(e, r.limits.Document, errDocument)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return err // empty where etcdctl had no answer
	}
	g := &r.gathered
	var into any
	switch path.Base(e.name) {
	case "member_list.json":
		g.at = fact.Location{File: e.name, Line: 1}
		into = &struct {
			Members any `json:"members"`
		}{&g.members}
	case "endpoint_status.json":
		into = &g.status
	case "endpoint_health.json":
		into = &g.health
	case "alarm_list.json":
		into = &struct {
			Alarms any `json:"alarms"`
		}{&g.alarms}
	}
	err = json.Unmarshal(data, into)
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return errors.New("not JSON; was etcdctl's error written into it?")
	}
	if err != nil {
		return fmt.Errorf("not what etcdctl prints: %w", err)
	}
	return nil
}

// alarmNames are etcd's own for its numbers.
var alarmNames = map[int]string{1: "NOSPACE", 2: "CORRUPT"}

// add makes members of what was gathered. Who is on the list and did not tell its
// health is not well: etcdctl asks everybody.
func (g *etcdInfo) add(f *fact.Facts) {
	if len(f.Etcd.Items) > 0 || len(g.health) == 0 {
		return // a list alone does not say how they fare
	}
	for _, m := range g.members {
		member := &fact.EtcdMember{Name: m.Name, ID: fmt.Sprintf("%x", m.ID), PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.Learner}
		g.healthOf(member)
		for _, s := range g.status {
			if s.Status.Header.Member == m.ID {
				member.Version, member.DBBytes, member.Leader = s.Status.Version, s.Status.DBSize, s.Status.Leader == m.ID
			}
		}
		for _, a := range g.alarms {
			if name := alarmNames[a.Alarm]; a.Member == m.ID && name != "" {
				member.Alarms = append(member.Alarms, name)
			}
		}
		f.Etcd.Add(member, g.at)
	}
}

func (g *etcdInfo) healthOf(m *fact.EtcdMember) {
	m.Error = "it did not answer when the state was gathered"
	for _, h := range g.health {
		for _, url := range m.ClientURLs {
			if fact.Host(h.Endpoint) == fact.Host(url) {
				m.Healthy, m.Error = h.Health, h.Error
			}
		}
	}
}
