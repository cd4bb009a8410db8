package robustness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// The programs that the tests run: what is tested, with the race detector as the
// tests have it, and what judges, without.
var holdfast, judge string

func TestMain(m *testing.M) {
	if dir := os.Getenv(asReaper); dir != "" {
		os.Exit(reap(dir))
	}
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-robustness-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	judge, holdfast = filepath.Join(dir, "judge"), os.Getenv("HOLDFAST_BINARY")
	err = build(".", judge, "./judge")
	if holdfast == "" {
		holdfast = filepath.Join(dir, "holdfast")
		err = errors.Join(err, build(filepath.Join("..", ".."), holdfast, "-race", "./cmd/holdfast"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(module, output string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", output}, args...)...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", args, err, out)
	}
	return nil
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q: want a number", name, text)
	}
	return n
}

// seeds are as many as asked for, other ones in every process, or the one that is to be repeated.
func seeds(t *testing.T, n int) []uint64 {
	t.Helper()
	if one := number(t, "HOLDFAST_ROBUST_SEED", 0); one != 0 {
		return []uint64{uint64(one)}
	}
	first := uint64(time.Now().UnixMilli()) % 1e9 * 1000
	all := make([]uint64, n)
	for i := range all {
		all[i] = first + uint64(i)
	}
	return all
}

// nightly skips what takes minutes.
func nightly(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_ROBUST") == "" {
		t.Skip("HOLDFAST_ROBUST=1 runs it")
	}
}
