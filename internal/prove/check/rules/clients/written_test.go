package clients

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

func node(name, address string) fact.Item[corev1.Node] {
	return fact.Item[corev1.Node]{Object: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	}}
}

func TestFindsOneServerAlone(t *testing.T) {
	find := finder([]fact.Item[corev1.Node]{node("a1", "10.0.0.1"), node("b2", "10.0.0.12"), node("c3", "fd00::3")})
	for _, tc := range []struct {
		texts []string
		want  string
	}{
		{[]string{"x", "https://10.0.0.1:6443"}, "a1"},
		{[]string{"https://10.0.0.12:6443/api"}, "b2"},
		{[]string{"--master=[fd00::3]:6443"}, "c3"},
		{[]string{"10.0.0.1:6443,10.0.0.12:6443"}, ""},       // it can go to another one
		{[]string{"10.0.0.1:6443", "b: 10.0.0.12:6443"}, ""}, // also where they stand apart
		{[]string{"10.0.0.1:2379"}, ""},
		{[]string{"110.0.0.1:6443", "10.0.0.1:64430", "10.0.0.11:6443"}, ""},
	} {
		if i, _, got := find(tc.texts); got != tc.want || (i >= 0) != (tc.want != "") {
			t.Errorf("%v: %q at %d, want %q", tc.texts, got, i, tc.want)
		}
	}
	if finder([]fact.Item[corev1.Node]{node("a1", "10.0.0.1")}) != nil {
		t.Error("one node alone was looked for")
	}
}
