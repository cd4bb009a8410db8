package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestAlarmIsTheMembersOwn(t *testing.T) {
	for entry, want := range map[string]string{
		"memberID:42 alarm:NOSPACE":   "NOSPACE",
		"memberID:42  alarm:CORRUPT ": "CORRUPT",
		"memberID:421 alarm:NOSPACE":  "",
		"memberID:7 alarm:NOSPACE":    "",
		"etcdserver: no leader":       "",
		"something new":               "something new",
	} {
		if got := alarm(entry, 42); got != want {
			t.Errorf("%q: %q, want %q", entry, got, want)
		}
	}
}

func TestRaisedNamesTheMember(t *testing.T) {
	for entry, want := range map[string]Alarm{
		"memberID:42 alarm:NOSPACE":   {42, "NOSPACE"},
		"memberID:7  alarm:CORRUPT ":  {7, "CORRUPT"},
		"etcdserver: no leader":       {},
		"memberID:-1 alarm:NOSPACE":   {},
		"of somebody alarm:NOSPACE":   {},
		"memberID: 42: what is this?": {},
	} {
		if got, ok := raised(entry); got != want || ok != (want != Alarm{}) {
			t.Errorf("%q: %+v %v, want %+v", entry, got, ok, want)
		}
	}
}

func TestRefusalsCarryTheirRemedy(t *testing.T) {
	for text, want := range map[string]error{
		"etcdserver: user name is empty":                                            ErrAuth,
		"rpc error: etcdserver: authentication failed, invalid user ID or password": ErrAuth,
		"etcdserver: invalid auth token":                                            ErrAuth,
		"rpc error: code = PermissionDenied desc = etcdserver: permission denied":   ErrPermission,
	} {
		err := Explain(errors.New(text))
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	plain := errors.New("etcdserver: not leader")
	if got := Explain(plain); got != plain {
		t.Errorf("another error was changed: %v", got)
	}
}

func TestDialRefusesWhatIsNoURL(t *testing.T) {
	for _, endpoint := range []string{"", "10.0.0.1:2379", "https://", "%"} {
		if _, err := Dial(endpoint, Access{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", endpoint)) {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
