package scenario

import (
	"strings"
	"testing"
)

const storeScenario = `version: 1
name: stores
title: x
agents: none
remedy: {with: one store per zone, without: one store in shards}
stores: {sites: [a, b], patience: 10s}
faults: [{name: a-b, cuts: [{from: a, to: b}]}]
paths: [{sites: [a], targets: [store], kinds: [query], modes: [new], interval: 1s, timeout: 11s}]
expect: [{role: clean, without: never}]
variants: [{name: main, leaders: {main: a}}]
`

func TestMistakesOfStores(t *testing.T) {
	if _, err := Parse("stores.yaml", []byte(storeScenario)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ is, becomes, want string }{
		{"sites: [a, b]", "sites: [a, x]", `stores.sites[1]: "x" is unknown; choose one of a, b, c`},
		{"sites: [a, b]", "sites: [a, a]", "given twice"},
		{"sites: [a, b]", "sites: [a]", "name two sites or more"},
		{"patience: 10s", "patience: 16s", "choose 1s to 15s"},
		{"patience: 10s", "patience: 11s", "choose more than its patience of 11s"},
		{"sites: [a], targets", "sites: [c], targets", "site c has no store; choose one of a, b"},
		{"stores: {sites: [a, b], patience: 10s}\n", "", "has no store; choose one of stores.sites, which is empty"},
		{"kinds: [query]", "kinds: [put]", "query and store go together"},
	} {
		text := strings.Replace(storeScenario, tc.is, tc.becomes, 1)
		if _, err := Parse("stores.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s → %s: %v, want %q", tc.is, tc.becomes, err, tc.want)
		}
	}
}
