package s3

import (
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
)

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"s3://b/k?region=eu-west-1":                       "https://b.s3.eu-west-1.amazonaws.com/k",
		"s3://b/k/l?region=eu-west-1&style=path":          "https://s3.eu-west-1.amazonaws.com/b/k/l",
		"s3://b.c/k?region=eu-west-1":                     "https://s3.eu-west-1.amazonaws.com/b.c/k",
		"s3://b/k?endpoint=https://h:9000":                "https://h:9000/b/k",
		"s3://b/k?endpoint=https://h:9000/&style=virtual": "https://b.h:9000/k",
		"s3://b/k?endpoint=http://127.0.0.1:1&region=x":   "http://127.0.0.1:1/b/k",
		"s3://b":                           "!write s3://BUCKET/KEY",
		"s3:///k":                          "!write s3://BUCKET/KEY",
		"s3://b/k":                         "!neither endpoint nor region",
		"s3://b/k%20l?region=x":            "!key",
		"s3://b/../k?region=x":             "!key",
		"s3://b/k//l?region=x":             "!key",
		"s3://b!/k?region=x":               "!bucket",
		"s3://b/k?region=x&style=dns":      "!style",
		"s3://b/k?regoin=x":                "!regoin",
		"s3://b/k?region=x&region=y":       "!once",
		"s3://id:secret@b/k?region=x":      "!credentialsFile",
		"s3://b/k?endpoint=h:9000":         "!endpoint",
		"s3://b/k?endpoint=https://h/path": "!endpoint",
		"s3://b/" + strings.Repeat("k", 901) + "?region=x":            "!key",
		"s3://b/" + strings.Repeat("k", 900) + "?region=x&style=path": "https://s3.x.amazonaws.com/b/" + strings.Repeat("k", 900),
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(*u)
		at := p.url()
		complaint, refused := strings.CutPrefix(want, "!")
		switch {
		case refused && (err == nil || !strings.Contains(err.Error(), complaint) || strings.Contains(err.Error(), "secret@")):
			t.Errorf("%s: %v, want a line with %q", in, err, complaint)
		case !refused && (err != nil || at.String() != want):
			t.Errorf("%s: %s %v, want %s", in, at.String(), err, want)
		}
	}
}

// What answers mean: Amazon S3 API reference, "Error responses", and what others send.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		kind   error
		text   string
	}{
		{404, "<Error><Code>NoSuchKey</Code><Message>m</Message></Error>", nil, "NoSuchKey"},
		{404, "<Error><Code>NoSuchBucket</Code></Error>", store.ErrUnreachable, "make it"},
		{404, "<Error><Code>SomethingElse</Code></Error>", store.ErrUnreachable, "SomethingElse"},
		{404, "<html>not here</html>", store.ErrUnreachable, "check the endpoint"},
		{404, "", store.ErrUnreachable, "check the endpoint"},
		{403, "<Error><Code>AccessDenied</Code></Error>", store.ErrDenied, "s3:ListBucket"},
		{403, "<Error><Code>RequestTimeTooSkewed</Code></Error>", store.ErrDenied, "clock"},
		{400, "<Error><Code>ExpiredToken</Code></Error>", store.ErrDenied, "renew"},
		{301, "<Error><Code>PermanentRedirect</Code></Error>", store.ErrUnreachable, "region"},
		{501, "<Error><Code>NotImplemented</Code></Error>", store.ErrUnfit, "conditional"},
		{409, "<Error><Code>ConditionalRequestConflict</Code><Message>two\nlines</Message></Error>", nil, "two lines"},
		{503, "<Error><Code>SlowDown</Code></Error>", nil, "SlowDown"},
		{502, "<html>", nil, ""},
	} {
		r := explain(c.status, []byte(c.body))
		if !errors.Is(r.Kind, c.kind) || (r.Kind == nil) != (c.kind == nil) || !strings.Contains(r.Text, c.text) || strings.Contains(r.Text, "\n") {
			t.Errorf("%d %q: %+v, want %v and %q", c.status, c.body, r, c.kind, c.text)
		}
	}
}

func FuzzExplain(f *testing.F) {
	f.Add(404, []byte("<Error><Code>NoSuchKey</Code></Error>"))
	f.Add(404, []byte(xml.Header+"<Error><Code>NoSuchBucket</Code><Message>\x00</Message></Error>"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		r := explain(status, body)
		if strings.ContainsAny(r.Text, "\n\r\x00") {
			t.Errorf("%q", r.Text)
		}
		// Only that one code lets an object be taken for absent.
		if status == 404 && r.Kind == nil && !strings.Contains(string(body), "NoSuchKey") && !strings.Contains(string(body), "&#") {
			t.Errorf("%q is taken for: no object", body)
		}
	})
}

func TestKeys(t *testing.T) {
	for _, c := range []struct{ text, profile, id, secret, token, complaint string }{
		{"[default]\naws_access_key_id=a\naws_secret_access_key=b", "", "a", "b", "", ""},
		{"[default]\r\naws_access_key_id = a \r\nAWS_SECRET_ACCESS_KEY = b=c/+\r\naws_session_token=t\r\n", "", "a", "b=c/+", "t", ""},
		{"; x\n[other]\naws_access_key_id=a\naws_secret_access_key=b\n[profile p ]\naws_access_key_id=c\naws_secret_access_key=d\nregion=x", "p", "c", "d", "", ""},
		{"", "", "", "", "", "no section [default]"},
		{"[default]\naws_access_key_id=a", "", "", "", "", "lacks"},
		{"[default]\ncredential_process=/bin/x", "", "", "", "", "programs and roles"},
		{"[default]\naws_access_key_id=a\naws_secret_access_key=b", "p", "", "", "", "no section [p]"},
	} {
		path := filepath.Join(t.TempDir(), "credentials")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := openKeys(path, c.profile)
		if c.complaint != "" {
			if err == nil || !strings.Contains(err.Error(), c.complaint) || !strings.Contains(err.Error(), path) {
				t.Errorf("%q: %v, want %q", c.text, err, c.complaint)
			}
			continue
		}
		if err != nil || k.good.AccessKeyID != c.id || k.good.SecretAccessKey != c.secret || k.good.SessionToken != c.token {
			t.Errorf("%q: %+v %v", c.text, k.good, err)
		}
	}
	if _, err := openKeys("", ""); err == nil && os.Getenv("AWS_ACCESS_KEY_ID") == "" {
		t.Error("no keys were taken for some")
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("[default]\naws_access_key_id=a\naws_secret_access_key=b", "default")
	f.Fuzz(func(t *testing.T, text, profile string) {
		if c, err := parseKeys(text, profile); err == nil && (c.AccessKeyID == "" || c.SecretAccessKey == "") {
			t.Errorf("%q gave %+v", text, c)
		}
	})
}

// The server's time goes on by the monotonic clock, whatever the wall clock does.
func TestTimeOfTheServer(t *testing.T) {
	now := time.Now()
	s := &signer{now: func() time.Time { return now }}
	if got := s.time(); !got.Equal(now) {
		t.Errorf("before it is known: %s", got)
	}
	said := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	s.heard(http.Header{"Date": {said.Format(http.TimeFormat)}})
	s.heard(http.Header{"Date": {"yesterday"}})
	now = now.Add(90 * time.Second)
	if got := s.time(); !got.Equal(said.Add(90 * time.Second)) {
		t.Errorf("%s, want 90 s after %s", got, said)
	}
}

func TestNewNamesThePlaceWithoutSecrets(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	u, err := url.Parse("s3://b/k?endpoint=http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(*u)
	if err != nil {
		t.Fatal(err)
	}
	o, err := New(p, "", "", creds.Files{})
	if err != nil {
		t.Fatal(err)
	}
	beside, err := o.Beside("-x")
	if err != nil {
		t.Fatal(err)
	}
	if o.Name() != "s3://b/k at 127.0.0.1:1" || beside.Name() != "s3://b/k at 127.0.0.1:1 (-x)" {
		t.Errorf("%q %q", o.Name(), beside.Name())
	}
}
