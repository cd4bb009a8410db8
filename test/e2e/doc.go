// Package e2e holds the lab suites: the programs of the project against real
// peers on three sites, judged by what a client sees.
//
// The agents are this test binary run again, so that the race detector looks
// at them too. Under CI=true a suite that cannot run fails.
package e2e
