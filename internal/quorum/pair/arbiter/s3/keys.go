package s3

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// mostFile is far above any file of credentials.
const mostFile = 256 << 10

// keys are read for each request.
type keys struct {
	path, profile string

	mu   sync.Mutex
	good aws.Credentials
}

// openKeys reads them once, so that a mistake is found at the start.
func openKeys(path, profile string) (*keys, error) {
	if profile == "" {
		profile = "default"
	}
	k := &keys{path: path, profile: profile}
	_, err := k.current()
	return k, err
}

// current are the newest good ones.
func (k *keys) current() (aws.Credentials, error) {
	c, err := k.read()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.good = c
	}
	if k.good.AccessKeyID != "" {
		return k.good, nil
	}
	return c, err
}

func (k *keys) read() (aws.Credentials, error) {
	if k.path == "" {
		c := aws.Credentials{
			AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
		}
		if c.AccessKeyID == "" || c.SecretAccessKey == "" {
			return c, errors.New("credentialsFile is empty, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set; give one of the two")
		}
		return c, nil
	}
	b, err := file.Read(k.path, mostFile)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("credentialsFile: %w", err)
	}
	c, err := parseKeys(string(b), k.profile)
	if err != nil {
		return c, fmt.Errorf("credentialsFile: %s: %w", k.path, err)
	}
	return c, nil
}

// parseKeys reads the form of ~/.aws/credentials: sections in brackets, "key = value".
func parseKeys(text, profile string) (aws.Credentials, error) {
	var c aws.Credentials
	inside, found := false, false
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			name = strings.TrimSpace(strings.TrimPrefix(name, "profile "))
			inside = name == profile
			found = found || inside
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		if inside {
			set(&c, strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value))
		}
	}
	switch {
	case !found:
		return c, fmt.Errorf("no section [%s]; write one, or name another by profile", profile)
	case c.AccessKeyID == "" || c.SecretAccessKey == "":
		return c, fmt.Errorf("section [%s] lacks aws_access_key_id or aws_secret_access_key; write both (programs and roles are not asked)", profile)
	}
	return c, nil
}

func set(c *aws.Credentials, key, value string) {
	switch key {
	case "aws_access_key_id":
		c.AccessKeyID = value
	case "aws_secret_access_key":
		c.SecretAccessKey = value
	case "aws_session_token":
		c.SessionToken = value
	}
}
