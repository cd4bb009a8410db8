package kubeapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// maxKubeconfig bounds the file; one of a hundred clusters is about 1 MiB.
const maxKubeconfig = 4 << 20

// kubeconfig holds the fields that matter here; others are ignored, for the
// file belongs to kubectl.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Clusters       []struct {
		Name    string  `yaml:"name"`
		Cluster cluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Contexts []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster   string `yaml:"cluster"`
			User      string `yaml:"user"`
			Namespace string `yaml:"namespace"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Users []struct {
		Name string `yaml:"name"`
		User user   `yaml:"user"`
	} `yaml:"users"`
}

type cluster struct {
	Server        string `yaml:"server"`
	TLSServerName string `yaml:"tls-server-name"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
	CA            string `yaml:"certificate-authority"`
	CAData        string `yaml:"certificate-authority-data"`
	ProxyURL      string `yaml:"proxy-url"`
}

type user struct {
	Cert         string    `yaml:"client-certificate"`
	CertData     string    `yaml:"client-certificate-data"`
	Key          string    `yaml:"client-key"`
	KeyData      string    `yaml:"client-key-data"`
	Token        string    `yaml:"token"`
	TokenFile    string    `yaml:"tokenFile"`
	Username     string    `yaml:"username"`
	Password     string    `yaml:"password"`
	As           string    `yaml:"as"`
	Exec         yaml.Node `yaml:"exec"`
	AuthProvider yaml.Node `yaml:"auth-provider"`
}

// ReadKubeconfig reads one context of a kubeconfig file; an empty name means
// the current one. Relative paths in it are taken from its own folder.
func ReadKubeconfig(path, context string) (Config, error) {
	data, err := file.Read(path, maxKubeconfig)
	if err != nil {
		return Config{}, fmt.Errorf("kubeconfig: %w", err)
	}
	config, err := ParseKubeconfig(data, filepath.Dir(path), context)
	if err != nil {
		return Config{}, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return config, nil
}

// ParseKubeconfig is ReadKubeconfig on the contents of a file in folder dir.
func ParseKubeconfig(data []byte, dir, context string) (Config, error) {
	var k kubeconfig
	if err := yaml.Unmarshal(data, &k); err != nil {
		return Config{}, yamlError(err)
	}
	if context == "" {
		context = k.CurrentContext
	}
	if context == "" {
		return Config{}, errors.New("current-context: empty; set it or name a context")
	}
	for _, c := range k.Contexts {
		if c.Name == context {
			return k.config(c.Context.Cluster, c.Context.User, c.Context.Namespace, dir)
		}
	}
	return Config{}, fmt.Errorf("context %q: not in the file; name one that is", context)
}

// yamlError keeps the position and drops the values that the library quotes:
// they may be secrets.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		text = te.Errors[0]
	}
	if at, _, ok := strings.Cut(text, ":"); ok && strings.HasPrefix(at, "line ") {
		return fmt.Errorf("%s: not the YAML of a kubeconfig; compare with one that kubectl reads", at)
	}
	return errors.New("not the YAML of a kubeconfig; compare with one that kubectl reads")
}

func (k *kubeconfig) config(clusterName, userName, namespace, dir string) (Config, error) {
	c := Config{Namespace: namespace}
	found := false
	for _, each := range k.Clusters {
		if found = each.Name == clusterName; found {
			if err := each.Cluster.into(&c, dir); err != nil {
				return Config{}, fmt.Errorf("cluster %q: %w", clusterName, err)
			}
			break
		}
	}
	if !found {
		return Config{}, fmt.Errorf("cluster %q: named by the context but not in the file; add it", clusterName)
	}
	if userName == "" {
		return c, nil
	}
	for _, each := range k.Users {
		if each.Name == userName {
			if err := each.User.into(&c, dir); err != nil {
				return Config{}, fmt.Errorf("user %q: %w", userName, err)
			}
			return c, nil
		}
	}
	return Config{}, fmt.Errorf("user %q: named by the context but not in the file; add it", userName)
}

func (from cluster) into(c *Config, dir string) (err error) {
	switch {
	case from.Insecure:
		return errors.New("insecure-skip-tls-verify: whoever answers could name the backends; give certificate-authority instead")
	case from.ProxyURL != "":
		return errors.New("proxy-url: not supported, the API is reached directly; remove it")
	}
	c.Server, c.ServerName = from.Server, from.TLSServerName
	c.CAFile = resolve(dir, from.CA)
	if c.CAData, err = decode("certificate-authority-data", from.CAData); err != nil {
		return err
	}
	_, err = c.base()
	return err
}

func (from user) into(c *Config, dir string) (err error) {
	switch {
	case !from.Exec.IsZero():
		return errors.New("exec: a program that obtains credentials is not run by an agent; give token, tokenFile or a client certificate")
	case !from.AuthProvider.IsZero():
		return errors.New("auth-provider: not supported; give token, tokenFile or a client certificate")
	case from.Username != "" || from.Password != "":
		return errors.New("username and password: no longer accepted by Kubernetes; give token, tokenFile or a client certificate")
	case from.As != "":
		return errors.New("as: impersonation is not supported; give credentials of the user itself")
	}
	c.CertFile, c.KeyFile = resolve(dir, from.Cert), resolve(dir, from.Key)
	if c.CertData, err = decode("client-certificate-data", from.CertData); err != nil {
		return err
	}
	if c.KeyData, err = decode("client-key-data", from.KeyData); err != nil {
		return err
	}
	c.Token, c.TokenFile = from.Token, resolve(dir, from.TokenFile)
	_, err = c.base()
	return err
}

func resolve(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func decode(field, text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("%s: not base64; encode the PEM file with base64", field)
	}
	return data, nil
}
