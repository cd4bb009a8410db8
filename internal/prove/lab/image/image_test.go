package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"testing"
)

func read(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImage(t *testing.T) {
	i := Image{Name: "lab.invalid/pod:1", Path: "/pod", Program: []byte("#!program")}
	var one, two bytes.Buffer
	if err := i.Write(&one); err != nil {
		t.Fatal(err)
	}
	if err := i.Write(&two); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the same image is written in two ways")
	}
	files := read(t, &one)
	var list []manifest
	if err := json.Unmarshal(files["manifest.json"], &list); err != nil || len(list) != 1 || list[0].RepoTags[0] != i.Name {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	var conf config
	if err := json.Unmarshal(files[list[0].Config], &conf); err != nil {
		t.Fatal(err)
	}
	layer := files[list[0].Layers[0]]
	sum := sha256.Sum256(layer)
	if conf.RootFS.DiffIDs[0] != "sha256:"+hex.EncodeToString(sum[:]) || conf.Config.Entrypoint[0] != "/pod" {
		t.Errorf("configuration %+v", conf)
	}
	if inside := read(t, bytes.NewReader(layer)); len(inside) != 1 || string(inside["pod"]) != "#!program" {
		t.Errorf("layer holds %q", inside)
	}
}
