package guard

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// nested are the modules beside the main one, each with its reason. A module
// that is not listed is neither linted, nor built by scripts/peers, nor
// followed for security notices.
var nested = map[string]string{
	"tools":                      "the linter, whose 200 dependencies stay out of go.mod",
	"test/peers/etcd-3.5":        "a real peer of the lab; two versions of etcd cannot share one module",
	"test/peers/etcd-3.6":        "as above",
	"test/peers/etcd-3.7":        "as above",
	"test/peers/kubernetes-1.35": "as above; k8s.io/kubernetes needs its staging modules replaced",
	"test/peers/kubernetes-1.37": "as above, the newest minor",
	"test/peers/leaderelection":  "a holder of an address on client-go, which the bench compares with; all of client-go stays out of the programs' tests",
	"test/peers/versitygw":       "a real S3-compatible server, which an arbiter's record is kept in; its clouds' libraries stay out of go.mod",
	"test/monitoring":            "the tests of alert rules and dashboards by Prometheus' own parser and engine, which stay out of go.mod",
	"test/robustness":            "etcd's own robustness tests, whose dependencies stay out of go.mod",
	"test/peers/pod":             "what runs in the lab's pods; built once beside the peers, without the project's dependencies",
}

func modules(tr *tree) []string {
	var all []string
	for _, dir := range tr.modules {
		if _, ok := nested[dir]; !ok && dir != "." {
			all = append(all, dir+": a module that is not listed in internal/guard; list it with its reason")
		}
	}
	return all
}

func TestNestedModulesAreListed(t *testing.T) {
	holds(t, modules)
	catches(t, modules, map[string]string{"go.mod": "", "tools/go.mod": "", "extra/go.mod": ""}, "extra")
	for dir := range nested {
		if !slices.Contains(repository(t).modules, dir) {
			t.Errorf("%s: listed, but not there", dir)
		}
	}
}

var (
	fence   = regexp.MustCompile("(?ms)^\\s*(```|~~~).*?^\\s*(```|~~~)[ \t]*$")
	inline  = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?[^)]*\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*#*$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// links checks that every relative link of a document leads to a file or
// directory of root and, where it has one, to a heading.
func links(root fs.FS, tr *tree) []string {
	var all []string
	for _, f := range tr.files {
		if path.Ext(f.name) != ".md" {
			continue
		}
		text := inline.ReplaceAllString(fence.ReplaceAllString(f.text, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if complaint := follow(root, f.name, m[1]); complaint != "" {
				all = append(all, fmt.Sprintf("%s: link %s: %s", f.name, m[1], complaint))
			}
		}
	}
	return all
}

func follow(root fs.FS, from, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	name := from
	if u.Path != "" {
		name = path.Join(path.Dir(from), u.Path)
	}
	if _, err := fs.Stat(root, name); err != nil {
		return "leads nowhere"
	}
	if u.Fragment == "" || path.Ext(name) != ".md" {
		return ""
	}
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(anchors(string(data)), u.Fragment) {
		return "no such heading"
	}
	return ""
}

// anchors lists the fragments that GitHub gives to the headings of a document.
func anchors(text string) []string {
	var all []string
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		title := link.ReplaceAllString(m[1], "")
		slug := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		if n := seen[slug]; n > 0 {
			slug = fmt.Sprintf("%s-%d", slug, n)
		}
		seen[slug]++
		all = append(all, slug)
	}
	return all
}

func TestLinksOfDocumentsResolve(t *testing.T) {
	for _, complaint := range links(os.DirFS("../.."), repository(t)) {
		t.Error(complaint)
	}
	root := fstest.MapFS{
		"README.md": {Data: []byte("[ok](docs/a.md#two-words) [dir](docs) [web](https://example.org/x) [gone](docs/b.md)\n" +
			"[bad](docs/a.md#three) `[code](nowhere)`\n```\n[fenced](nowhere)\n```\n[self](#top)\n# Top\n")},
		"docs/a.md": {Data: []byte("# Two words\n[up](../README.md) ![picture](a.svg)\n")},
	}
	got := links(root, load(t, root))
	want := []string{
		"README.md: link docs/b.md: leads nowhere",
		"README.md: link docs/a.md#three: no such heading",
		"docs/a.md: link a.svg: leads nowhere",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
