package arbiter

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	member "github.com/holdfast-ha/holdfast/internal/quorum/etcd"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/configmap"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/etcd"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/rest"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/s3"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
)

// Settings say where the record is and who asks. Files are read again when they
// have changed; secrets stand in files only.
type Settings struct {
	// URL is the object, with its kind as scheme:
	//	https://HOST:PORT/PATH
	//	http://127.0.0.1:PORT/PATH, on loopback only
	//	s3://BUCKET/KEY?endpoint=https://HOST&region=NAME&style=path|virtual
	//	etcd+https://HOST:2379,HOST:2379/KEY
	//	configmap://NAMESPACE/NAME?kubeconfig=FILE&context=NAME
	URL string `yaml:"url"`
	// CAFile vouches for the server; empty means the roots of the system.
	CAFile string `yaml:"caFile"`
	// CertFile and KeyFile are the client's own; both or neither.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
	// TokenFile holds a bearer token.
	TokenFile string `yaml:"tokenFile"`
	// Username and PasswordFile are an account; both or neither.
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"passwordFile"`
	// CredentialsFile has the keys for s3 in the form of ~/.aws/credentials, Profile
	// the section to use (default: default). Without it the environment has them.
	CredentialsFile string `yaml:"credentialsFile"`
	Profile         string `yaml:"profile"`
}

// AddFlags adds --arbiter, which is the URL, and --arbiter-… for the files.
func (s *Settings) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&s.URL, "arbiter", s.URL, "URL of the arbiter's record, such as s3://BUCKET/KEY or https://HOST:PORT/PATH; see docs/guide/arbiter.md")
	f.StringVar(&s.CAFile, "arbiter-ca-file", s.CAFile, "CA of the arbiter's server (default: the roots of the system)")
	f.StringVar(&s.CertFile, "arbiter-cert-file", s.CertFile, "certificate shown to the arbiter")
	f.StringVar(&s.KeyFile, "arbiter-key-file", s.KeyFile, "key of that certificate")
	f.StringVar(&s.TokenFile, "arbiter-token-file", s.TokenFile, "file with a bearer token for the arbiter")
	f.StringVar(&s.Username, "arbiter-username", s.Username, "name of an account at the arbiter")
	f.StringVar(&s.PasswordFile, "arbiter-password-file", s.PasswordFile, "file with the account's password")
	f.StringVar(&s.CredentialsFile, "arbiter-credentials-file", s.CredentialsFile, "file with the keys for s3, in the form of ~/.aws/credentials")
	f.StringVar(&s.Profile, "arbiter-profile", s.Profile, "section of that file (default: default)")
}

// Open prepares the store that the settings name. Nothing is sent yet: an arbiter that
// does not answer is an error of the later calls. An error here is one line for a person
// to mend, and names the field.
func Open(s Settings) (Store, error) {
	opened, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("arbiter: %w", err)
	}
	return opened, nil
}

func (s *Settings) open() (store.Store, error) {
	if s.URL == "" {
		return nil, errors.New("url is empty; name the record, as in https://HOST:PORT/pairs/prod")
	}
	if (s.Username == "") != (s.PasswordFile == "") {
		return nil, fmt.Errorf("username %q and passwordFile %q: one is missing; give both or neither", s.Username, s.PasswordFile)
	}
	if strings.HasPrefix(s.URL, "etcd+") {
		return s.openEtcd()
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", errors.Unwrap(err))
	}
	switch u.Scheme {
	case "https", "http":
		return s.openREST(*u)
	case "s3":
		return s.openS3(*u)
	case "configmap":
		return s.openConfigMap(*u)
	}
	return nil, fmt.Errorf("url: scheme %q; known are s3, etcd+https, configmap and https", u.Scheme)
}

func (s *Settings) files() creds.Files {
	return creds.Files{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}
}

func (s *Settings) openS3(u url.URL) (store.Store, error) {
	place, err := s3.Parse(u)
	if err != nil {
		return nil, err
	}
	if s.TokenFile != "" || s.Username != "" {
		return nil, errors.New("tokenFile and username are not for s3; give credentialsFile")
	}
	return s3.New(place, s.CredentialsFile, s.Profile, s.files())
}

func (s *Settings) openEtcd() (store.Store, error) {
	place, err := etcd.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	if s.TokenFile != "" || s.CredentialsFile != "" {
		return nil, errors.New("tokenFile and credentialsFile are not for etcd; give username and passwordFile, or certFile and keyFile")
	}
	return etcd.New(place, member.Access{TLS: s.files(), Username: s.Username, PasswordFile: s.PasswordFile})
}

func (s *Settings) openConfigMap(u url.URL) (store.Store, error) {
	place, err := configmap.Parse(u)
	if err != nil {
		return nil, err
	}
	if s.files() != (creds.Files{}) || s.TokenFile != "" || s.CredentialsFile != "" || s.Username != "" {
		return nil, errors.New("files beside configmap: its kubeconfig has all of them; leave them out")
	}
	return configmap.New(place)
}

func (s *Settings) openREST(u url.URL) (store.Store, error) {
	var d rest.Dialect
	switch {
	case s.TokenFile != "" && s.Username != "":
		return nil, errors.New("tokenFile beside username; give one of them")
	case s.TokenFile != "":
		token, err := rest.NewSecret("tokenFile", s.TokenFile)
		if err != nil {
			return nil, err
		}
		d.Authorize = rest.Bearer(token)
	case s.Username != "":
		password, err := rest.NewSecret("passwordFile", s.PasswordFile)
		if err != nil {
			return nil, err
		}
		if d.Authorize, err = rest.Basic(s.Username, password); err != nil {
			return nil, err
		}
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("url %q: an object has neither query nor fragment", s.URL)
	}
	return rest.New(u, s.files(), d)
}
