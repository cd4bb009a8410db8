package collect

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

const redacted = "REDACTED"

// secretName is what a variable is called whose value nobody should see.
var secretName = regexp.MustCompile(`(?i)(token|pass|secret|credential|api_?key|private|auth)`)

// secretField is what a field is called whose value is a credential.
var secretField = regexp.MustCompile(`(?i)(password|token|passphrase|psk)$`)

// clean is an object as a line of a bundle: with its kind, and without credentials
// and what only the apiserver needs.
func clean(data []byte, apiVersion, kind string) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return nil, errors.New("an item of the list is no object")
	}
	object["apiVersion"], object["kind"] = apiVersion, kind
	if m, ok := object["metadata"].(map[string]any); ok {
		delete(m, "managedFields")
		if a, ok := m["annotations"].(map[string]any); ok {
			delete(a, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	if kind == "CertificateSigningRequest" {
		if s, ok := object["spec"].(map[string]any); ok {
			delete(s, "request")
			delete(s, "extra")
		}
	}
	if kind == "Node" {
		if s, ok := object["status"].(map[string]any); ok {
			delete(s, "images")
		}
	}
	line, err := json.Marshal(scrub(object))
	return append(line, '\n'), err
}

// scrub takes credentials out of all text below v.
func scrub(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := v["name"].(string); ok && secretName.MatchString(name) {
			if _, ok := v["value"].(string); ok { // a variable of a container
				v["value"] = redacted
			}
		}
		for key, value := range v {
			if _, ok := value.(string); ok && secretField.MatchString(key) {
				v[key] = redacted
				continue
			}
			v[key] = scrub(value)
		}
		return v
	case []any:
		for i, value := range v {
			v[i] = scrub(value)
		}
		return v
	case string:
		if !strings.ContainsAny(v, ":= \t") {
			return v // a credential follows its name
		}
		return string(source.Redact([]byte(v)))
	}
	return v
}
