package probe

import (
	"bytes"
	"compress/gzip"
	"reflect"
	"strings"
	"testing"
)

func readAll(text string) ([]Sample, error) {
	var all []Sample
	for s, err := range ReadSamples(strings.NewReader(text)) {
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

func writeAll(t testing.TB, samples []Sample) string {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, s := range samples {
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestSamplesSurviveTheFile(t *testing.T) {
	want := series("b/etcd/put/new", "osrto")
	got, err := readAll(writeAll(t, want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestReadSamplesToleratesATruncatedEnd(t *testing.T) {
	text := writeAll(t, series("p", "ooo"))
	last := strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n") + 1
	for cut := last; cut < len(text); cut++ {
		got, err := readAll(text[:cut])
		want := 2
		if cut == len(text)-1 { // only the newline is missing
			want = 3
		}
		if err != nil || len(got) != want {
			t.Fatalf("cut at %d of %d: %d samples, %v", cut, len(text), len(got), err)
		}
	}
}

func TestReadSamplesOfATruncatedArchive(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(writeAll(t, series("p", "oooo"))))
	_ = z.Flush()
	_, _ = z.Write([]byte(writeAll(t, series("p", "oooo"))))
	_ = z.Close()
	in, err := gzip.NewReader(bytes.NewReader(b.Bytes()[:b.Len()-12]))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range ReadSamples(in) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n < 4 {
		t.Errorf("%d samples", n)
	}
}

func TestReadSamplesNamesTheBadLine(t *testing.T) {
	good := writeAll(t, series("p", "o"))
	for _, c := range []struct{ in, want string }{
		{good + "\n{\n" + good, "line 3: "},
		{good + `{"seq":1}` + "\n", "line 2: no path"},
		{strings.Repeat("x", maxLine+1), "line 1: longer than"},
	} {
		_, err := readAll(c.in)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// FuzzReadSamples checks that no input panics or hangs and that what was read
// can be written and read again.
func FuzzReadSamples(f *testing.F) {
	good := writeAll(f, series("p", "ort"))
	for _, s := range []string{"", "\n\n", good, good[:len(good)/2], "{}\n", "null\n", `{"path":"p","sent":"x"}` + "\n", "\x00\xff\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, _ := readAll(in)
		again, err := readAll(writeAll(t, got))
		if err != nil || len(again) != len(got) {
			t.Fatalf("second reading: %d of %d, %v", len(again), len(got), err)
		}
	})
}
