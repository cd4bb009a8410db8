package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/rest"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
)

// Place is where an object is: s3://BUCKET/KEY?endpoint=URL&region=NAME&style=path|virtual.
type Place struct {
	Bucket, Key string
	// Endpoint is the server; the default is that of AWS in Region.
	Endpoint url.URL
	// Region is what requests are signed for; servers other than AWS mostly take
	// the default, us-east-1.
	Region string
	// Virtual puts the bucket in front of the host name instead of the path.
	Virtual bool
}

// Parse reads the URL of a Place.
func Parse(u url.URL) (Place, error) {
	p := Place{Bucket: u.Host, Key: strings.TrimPrefix(u.Path, "/")}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return p, fmt.Errorf("url: query: %w", err)
	}
	for k, v := range q {
		if k != "endpoint" && k != "region" && k != "style" || len(v) != 1 {
			return p, fmt.Errorf("url: %s=%s; known are endpoint, region and style, each once", k, strings.Join(v, ","))
		}
	}
	switch {
	case u.User != nil:
		return p, errors.New("url: a name or password in it would be logged; give credentialsFile")
	case p.Bucket == "" || p.Key == "" || u.Fragment != "":
		return p, errors.New("url: write s3://BUCKET/KEY?endpoint=https://HOST")
	case strings.Trim(p.Bucket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") != "":
		return p, fmt.Errorf("url: bucket %q; a bucket has letters, digits, dots and dashes", p.Bucket)
	case !plain(p.Key):
		// What must be escaped, servers escape in different ways before they compare signatures.
		return p, fmt.Errorf("url: key %q; name it by letters, digits, -, _, ., ~ and /", p.Key)
	}
	return p, p.address(q)
}

func plain(key string) bool {
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.Trim(segment, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~") != "" {
			return false
		}
	}
	return len(key) <= 900 // S3's own bound is 1024, and the scratch object's key is longer
}

func (p *Place) address(q url.Values) error {
	p.Region = q.Get("region")
	endpoint := q.Get("endpoint")
	switch style := q.Get("style"); style {
	case "path":
	case "virtual":
		p.Virtual = true
	case "":
		// AWS has new buckets by virtual host only; certificates of others mostly name
		// one host. A dot in a bucket is beyond AWS's certificate.
		p.Virtual = endpoint == "" && !strings.Contains(p.Bucket, ".")
	default:
		return fmt.Errorf("url: style %q; write path or virtual", style)
	}
	if endpoint == "" {
		if p.Region == "" {
			return errors.New("url: neither endpoint nor region; add ?region=NAME for AWS, ?endpoint=https://HOST for another server")
		}
		endpoint = "https://s3." + p.Region + ".amazonaws.com"
	}
	if p.Region == "" {
		p.Region = "us-east-1"
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("url: endpoint %q; write https://HOST or https://HOST:PORT", endpoint)
	}
	p.Endpoint = *u
	return nil
}

func (p Place) url() url.URL {
	u := url.URL{Scheme: p.Endpoint.Scheme, Host: p.Endpoint.Host, Path: "/" + p.Key}
	if p.Virtual {
		u.Host = p.Bucket + "." + u.Host
	} else {
		u.Path = "/" + p.Bucket + u.Path
	}
	return u
}

// New prepares the object at p. credentialsFile is a file as AWS's own tools have it, of
// which the profile given is used ("": default); without one the environment has the keys.
func New(p Place, credentialsFile, profile string, files creds.Files) (store.Store, error) {
	keys, err := openKeys(credentialsFile, profile)
	if err != nil {
		return nil, err
	}
	s := &signer{region: p.Region, keys: keys, now: time.Now, sign: v4.NewSigner(func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = true // S3's paths are escaped once
	})}
	object, err := rest.New(p.url(), files, rest.Dialect{
		Name: fmt.Sprintf("s3://%s/%s at %s", p.Bucket, p.Key, p.Endpoint.Host), Authorize: s.authorize, Heard: s.heard, Explain: explain,
	})
	if err != nil {
		return nil, err
	}
	return object, nil
}

// signer signs requests by the server's time.
type signer struct {
	region string
	keys   *keys
	sign   *v4.Signer
	now    func() time.Time

	mu     sync.Mutex
	server time.Time // what the server's clock said
	at     time.Time // when it said so, with its monotonic reading
}

func (s *signer) authorize(r *http.Request, body []byte) error {
	c, err := s.keys.current()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	r.Header.Set("X-Amz-Content-Sha256", hash)
	if err := s.sign.SignHTTP(context.WithoutCancel(r.Context()), c, r, hash, "s3", s.region, s.time()); err != nil {
		return fmt.Errorf("sign request: %w", err)
	}
	return nil
}

// time is the server's, once it is known.
func (s *signer) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.at.IsZero() {
		return now.UTC()
	}
	return s.server.Add(now.Sub(s.at)).UTC()
}

// heard takes the time from an answer.
func (s *signer) heard(h http.Header) {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server, s.at = t, s.now()
}

// explain reads an error document, of which the code says what the status does not.
func explain(status int, body []byte) rest.Refusal {
	var doc struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}
	if err := xml.Unmarshal(body, &doc); err != nil || doc.Code == "" {
		if status == http.StatusNotFound {
			return rest.Refusal{Kind: store.ErrUnreachable, Text: "not an answer of an S3 server; check the endpoint"}
		}
		return rest.Refusal{}
	}
	code := printable(doc.Code)
	if k, ok := known[code]; ok {
		k.Text = code + "; " + k.Text
		return k
	}
	r := rest.Refusal{Text: code + ": " + printable(doc.Message)}
	if status == http.StatusNotFound && code != "NoSuchKey" {
		r.Kind = store.ErrUnreachable
	}
	return r
}

// known are codes (Amazon S3 API reference, "Error responses") that leave more to say
// than their own message does.
var known = map[string]rest.Refusal{
	"NoSuchBucket":                 {Kind: store.ErrUnreachable, Text: "the bucket is not there; make it, or correct the URL"},
	"PermanentRedirect":            {Kind: store.ErrUnreachable, Text: "the bucket is in another region; correct region and endpoint"},
	"AuthorizationHeaderMalformed": {Kind: store.ErrDenied, Text: "signed for the wrong region; correct region in the URL"},
	"AccessDenied":                 {Kind: store.ErrDenied, Text: "grant s3:GetObject and s3:PutObject on the key and s3:ListBucket on the bucket (without it, what is not there is denied)"},
	"InvalidAccessKeyId":           {Kind: store.ErrDenied, Text: "the server does not know the access key; renew credentialsFile"},
	"XAdminUserNotFound":           {Kind: store.ErrDenied, Text: "the server does not know the access key; renew credentialsFile"}, // versitygw's
	"SignatureDoesNotMatch":        {Kind: store.ErrDenied, Text: "the secret key is not the access key's, or a proxy changes requests"},
	"ExpiredToken":                 {Kind: store.ErrDenied, Text: "renew credentialsFile"},
	"InvalidToken":                 {Kind: store.ErrDenied, Text: "renew credentialsFile"},
	"RequestTimeTooSkewed":         {Kind: store.ErrDenied, Text: "this machine's clock differs from the server's; the next request takes the server's time"},
	"NotImplemented":               {Kind: store.ErrUnfit, Text: "this server has no conditional PUT"},
}

// printable is a short piece of a server's text for one line of a log.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}
