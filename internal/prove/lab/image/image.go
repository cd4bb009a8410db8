package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"runtime"
)

// Image describes an image.
type Image struct {
	// Name has a domain and a tag, as in "lab.invalid/pod:1": what reads the
	// archive would put a registry in front of anything else.
	Name string
	// Path is where the program is inside, and the entry point.
	Path string
	// Program is a static executable: there is nothing beside it.
	Program []byte
}

type manifest struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

type config struct {
	Architecture string  `json:"architecture"`
	OS           string  `json:"os"`
	Config       command `json:"config"`
	RootFS       rootFS  `json:"rootfs"`
}

type command struct {
	Entrypoint []string `json:"Entrypoint"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// Write writes the archive.
func (i Image) Write(w io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return fmt.Errorf("write layer of %s: %w", i.Name, err)
	}
	sum := sha256.Sum256(layer)
	conf, err := json.Marshal(config{
		Architecture: runtime.GOARCH, OS: "linux",
		Config: command{Entrypoint: []string{i.Path}},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return fmt.Errorf("encode configuration of %s: %w", i.Name, err)
	}
	list, err := json.Marshal([]manifest{{Config: "config.json", RepoTags: []string{i.Name}, Layers: []string{"layer.tar"}}})
	if err != nil {
		return fmt.Errorf("encode manifest of %s: %w", i.Name, err)
	}
	archive := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		data []byte
	}{{"manifest.json", list}, {"config.json", conf}, {"layer.tar", layer}} {
		if err := add(archive, f.name, 0o644, f.data); err != nil {
			return fmt.Errorf("write image %s: %w", i.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	return nil
}

func (i Image) layer() ([]byte, error) {
	var b bytes.Buffer
	layer := tar.NewWriter(&b)
	if err := add(layer, path.Clean(i.Path)[1:], 0o755, i.Program); err != nil {
		return nil, err
	}
	err := layer.Close()
	return b.Bytes(), err
}

func add(w *tar.Writer, name string, mode int64, data []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), Format: tar.FormatUSTAR}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
