package source

import (
	"path"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// pipelineNames are patterns of the names of files that tell a CI what to run, and
// pipelineDirs of where such files are kept under any name.
var (
	pipelineNames = []string{".gitlab-ci.yml", "Jenkinsfile", "azure-pipelines*.yml", "bitbucket-pipelines.yml", ".drone.yml", ".woodpecker*.yml", ".travis.yml"}
	pipelineDirs  = []string{"pipelines", ".github/workflows", ".gitlab", ".circleci", ".woodpecker", ".forgejo/workflows", ".gitea/workflows"}
)

// isPipeline says by its name that a file is one.
func isPipeline(name string) bool {
	dir := path.Dir(name)
	return slices.ContainsFunc(pipelineNames, func(p string) bool { ok, _ := path.Match(p, path.Base(name)); return ok }) ||
		slices.ContainsFunc(pipelineDirs, func(d string) bool { return dir == d || strings.HasSuffix(dir, "/"+d) })
}

// hidden says that a directory is not looked into: .git and its like.
func hidden(base string) bool {
	if !strings.HasPrefix(base, ".") || base == "." {
		return false
	}
	return !slices.ContainsFunc(pipelineDirs, func(d string) bool { return d == base || strings.HasPrefix(d, base+"/") })
}

func (r *reader) pipeline(e entry) error {
	data, err := r.whole(e, r.limits.NodeFile, errNodeFile)
	if err != nil {
		return err
	}
	r.facts.Pipelines.Add(&fact.File{Path: e.name, Data: redact(data)}, fact.Location{File: e.name, Line: 1})
	return nil
}
