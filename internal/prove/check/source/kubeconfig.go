package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/file"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// kubeconfig has the fields that tell where a client goes. Those of users are left
// out: nothing of a credential is decoded.
type kubeconfig struct {
	CurrentContext string `json:"current-context" yaml:"current-context"`
	Clusters       []struct {
		Name    string `json:"name" yaml:"name"`
		Cluster struct {
			Server        string `json:"server" yaml:"server"`
			TLSServerName string `json:"tls-server-name" yaml:"tls-server-name"`
			Insecure      bool   `json:"insecure-skip-tls-verify" yaml:"insecure-skip-tls-verify"`
		} `json:"cluster" yaml:"cluster"`
	} `json:"clusters" yaml:"clusters"`
	Contexts []struct {
		Name    string `json:"name" yaml:"name"`
		Context struct {
			Cluster string `json:"cluster" yaml:"cluster"`
		} `json:"context" yaml:"context"`
	} `json:"contexts" yaml:"contexts"`
}

func (r *reader) kubeconfig(e entry) error {
	data, err := r.whole(e, r.limits.Document, errDocument)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return yamlError(err)
	}
	if doc.Kind == 0 {
		return nil
	}
	plain, err := r.toJSON(doc.Content[0])
	if err != nil {
		return err
	}
	at := fact.Location{File: e.name, Line: 1}
	return r.addKubeconfig(plain, at.WithYAML(doc.Content[0]))
}

// AddKubeconfigs adds the kubeconfigs of clients, and pipelines by their names, to
// facts that were read. A file that is neither is an error that names it.
func AddKubeconfigs(f *fact.Facts, files []string, limits Limits) error {
	for _, name := range files {
		data, err := file.Read(name, limits.NodeFile)
		if err != nil {
			return fmt.Errorf("kubeconfig of a client: %w", err)
		}
		r := newReader(f.Origin, limits)
		r.facts = f
		e := entry{name: below(f.Root, name), size: int64(len(data)), r: bytes.NewReader(data)}
		if isPipeline(filepath.ToSlash(name)) {
			if err := r.pipeline(e); err != nil {
				return fmt.Errorf("pipeline of a client: %s: %w", name, err)
			}
			continue
		}
		if err := r.kubeconfig(e); err != nil {
			return fmt.Errorf("kubeconfig of a client: %s: %w", where(name, err), err)
		}
		if f.Kubeconfigs.State != fact.Present {
			return fmt.Errorf("kubeconfig of a client: %s: no cluster in it", name)
		}
	}
	return nil
}

// below is the path of a file as seen from root, so that joined to it it leads to
// the file; absolute where there is no such way.
func below(root, name string) string {
	if rel, err := filepath.Rel(root, name); root != "" && err == nil {
		name = rel
	}
	return filepath.ToSlash(name)
}

func (r *reader) addKubeconfig(data []byte, at fact.Location) error {
	var k kubeconfig
	if err := json.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("not a kubeconfig: %w", err)
	}
	at.Object = fact.Reference{}
	used := map[string]bool{}
	for _, c := range k.Contexts {
		used[c.Context.Cluster] = true
		r.addContext(&k, c.Context.Cluster, c.Name, at)
	}
	for _, c := range k.Clusters {
		if !used[c.Name] {
			r.addContext(&k, c.Name, "", at)
		}
	}
	return nil
}

func (r *reader) addContext(k *kubeconfig, cluster, context string, at fact.Location) {
	for i, c := range k.Clusters {
		if c.Name == cluster {
			r.facts.Kubeconfigs.Add(&fact.Kubeconfig{
				Context: context, Current: context != "" && context == k.CurrentContext,
				Server: c.Cluster.Server, TLSServerName: c.Cluster.TLSServerName, Insecure: c.Cluster.Insecure,
			}, at.Field("clusters", fmt.Sprint(i), "cluster", "server"))
		}
	}
}
