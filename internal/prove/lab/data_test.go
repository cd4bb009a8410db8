package lab

import (
	"os"
	"testing"
)

func TestSweepTakesOnlyWhatNoLabHolds(t *testing.T) {
	parent := t.TempDir()
	held, lock, err := makeLocked(parent, "holdfast-lab-held-")
	if err != nil {
		t.Fatal(err)
	}
	left, dead, err := makeLocked(parent, "holdfast-lab-dead-")
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Close() // as the kernel does for a killed lab
	foreign, err := os.MkdirTemp(parent, "holdfast-lab-foreign-")
	if err != nil {
		t.Fatal(err)
	}
	sweepData(parent)
	for dir, want := range map[string]bool{held: true, left: false, foreign: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it kept: %v", dir, err, want)
		}
	}
	_ = lock.Close()
}
