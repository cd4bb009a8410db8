package format

import (
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
)

// home is where the documents of the project are.
const home = "https://github.com/holdfast-ha/holdfast"

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Short   sarifMessage  `json:"shortDescription"`
	Full    sarifMessage  `json:"fullDescription"`
	Help    sarifMessage  `json:"help"`
	HelpURI string        `json:"helpUri"`
	Default sarifDefault  `json:"defaultConfiguration"`
	Tags    sarifProperty `json:"properties"`
}

type sarifDefault struct {
	Level string `json:"level"`
}

type sarifProperty struct {
	Tags []string `json:"tags"`
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level   string       `json:"level"`
	Message sarifMessage `json:"message"`
}

type sarifResult struct {
	RuleID       string             `json:"ruleId"`
	RuleIndex    int                `json:"ruleIndex"`
	Level        string             `json:"level"`
	Message      sarifMessage       `json:"message"`
	Locations    []sarifLocation    `json:"locations"`
	Fingerprints map[string]string  `json:"partialFingerprints"`
	Baseline     string             `json:"baselineState,omitempty"`
	Suppressions []sarifSuppression `json:"suppressions,omitempty"`
}

type sarifSuppression struct {
	Kind          string `json:"kind"`
	Justification string `json:"justification"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
	Kind               string `json:"kind"`
}

// SARIF prints a log of version 2.1.0. Files are named below the root of what was
// given; consumers show what is in the repository under these names.
func SARIF(w io.Writer, r *audit.Report) error {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "holdfast check", InformationURI: home}},
		Invocations: []sarifInvocation{invocation(r)}, Results: []sarifResult{},
	}
	index := map[string]int{}
	run.Tool.Driver.Rules = []sarifRule{}
	for i, one := range r.Rules {
		index[one.ID] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, describe(one))
	}
	for _, f := range r.Findings {
		one := result(f, index[f.Rule], r.Source.Root)
		if one.Baseline == "" && r.Summary.Known > 0 {
			one.Baseline = "new"
		}
		run.Results = append(run.Results, one)
	}
	return indented(w, sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}

func invocation(r *audit.Report) sarifInvocation {
	i := sarifInvocation{Successful: len(r.Problems) == 0}
	for _, p := range r.Problems {
		i.Notifications = append(i.Notifications, sarifNotification{"error", sarifMessage{clean(p.Where + ": " + p.What)}})
	}
	for _, one := range r.Rules {
		if one.Outcome == audit.NotEvaluated {
			i.Notifications = append(i.Notifications, sarifNotification{"note", sarifMessage{one.ID + " was not evaluated: " + clean(one.Reason)}})
		}
	}
	return i
}

func describe(one audit.RuleResult) sarifRule {
	return sarifRule{
		ID: one.ID, Name: camel(one.Title), Short: sarifMessage{one.Title}, Full: sarifMessage{one.Why},
		Help:    sarifMessage{one.Remedy + ". It is proved by: holdfast drill run " + one.Drill},
		HelpURI: home + "/blob/main/docs/rules.md#" + strings.ToLower(one.ID),
		Default: sarifDefault{one.Severity}, Tags: sarifProperty{[]string{string(one.Group)}},
	}
}

// camel is a title as one word, which is what names of rules look like.
func camel(title string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(title, func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func result(f audit.Finding, index int, root string) sarifResult {
	text := f.What + "."
	if f.Effect != nil {
		text += " " + f.Effect.Text + "."
	}
	r := sarifResult{
		RuleID: f.Rule, RuleIndex: index, Level: f.Severity, Message: sarifMessage{clean(text)},
		Fingerprints: map[string]string{"holdfastCheck/v1": f.Fingerprint},
		Locations: []sarifLocation{{Physical: sarifPhysical{
			Artifact: sarifArtifact{URI: fileURI(root, f.Location.File)}, Region: sarifRegion{max(1, f.Location.Line)},
		}}},
	}
	if f.Location.Kind != "" {
		r.Locations[0].Logical = []sarifLogical{{clean(f.Location.Object()), "resource"}}
	}
	if f.Known {
		r.Baseline = "unchanged"
	}
	if f.Suppressed != nil {
		r.Suppressions = []sarifSuppression{{"external", clean(f.Suppressed.Reason + " (until " + f.Suppressed.Expires + ")")}}
	}
	return r
}

// fileURI is a file below root as a relative URI, or an absolute one.
func fileURI(root, name string) string {
	if path.IsAbs(name) {
		return (&url.URL{Scheme: "file", Path: name}).String()
	}
	return (&url.URL{Path: strings.TrimPrefix(path.Join(root, name), "./")}).EscapedPath()
}
