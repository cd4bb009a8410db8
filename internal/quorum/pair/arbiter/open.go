package arbiter

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/rest"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
)

// Settings say where the record is and who asks. Files are read again when they
// have changed; secrets stand in files only.
type Settings struct {
	// URL is the object, with its kind as scheme:
	//	https://HOST:PORT/PATH
	//	http://127.0.0.1:PORT/PATH, on loopback only
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
}

// AddFlags adds --arbiter, which is the URL, and --arbiter-… for the files.
func (s *Settings) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&s.URL, "arbiter", s.URL, "URL of the arbiter's record: https://HOST:PORT/PATH; see docs/guide/arbiter.md")
	f.StringVar(&s.CAFile, "arbiter-ca-file", s.CAFile, "CA of the arbiter's server (default: the roots of the system)")
	f.StringVar(&s.CertFile, "arbiter-cert-file", s.CertFile, "certificate shown to the arbiter")
	f.StringVar(&s.KeyFile, "arbiter-key-file", s.KeyFile, "key of that certificate")
	f.StringVar(&s.TokenFile, "arbiter-token-file", s.TokenFile, "file with a bearer token for the arbiter")
	f.StringVar(&s.Username, "arbiter-username", s.Username, "name of an account at the arbiter")
	f.StringVar(&s.PasswordFile, "arbiter-password-file", s.PasswordFile, "file with the account's password")
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
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", errors.Unwrap(err))
	}
	if (s.Username == "") != (s.PasswordFile == "") {
		return nil, fmt.Errorf("username %q and passwordFile %q: one is missing; give both or neither", s.Username, s.PasswordFile)
	}
	switch u.Scheme {
	case "https", "http":
		return s.openREST(*u)
	}
	return nil, fmt.Errorf("url: scheme %q; known are https and http", u.Scheme)
}

func (s *Settings) files() creds.Files {
	return creds.Files{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}
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
