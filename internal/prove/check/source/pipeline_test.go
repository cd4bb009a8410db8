package source

import (
	"testing"
)

func TestPipelinesAreKnownByTheirNames(t *testing.T) {
	for name, want := range map[string]bool{
		".gitlab-ci.yml": true, "repo/.gitlab-ci.yml": true, "ci/Jenkinsfile": true, ".github/workflows/deploy.yaml": true,
		"repo/.github/workflows/x.yml": true, "pipelines/anything": true, "azure-pipelines-prod.yml": true,
		"kubeconfigs/pipeline.yaml": false, "deploy.yaml": false, "workflows/x.yml": false, ".github/CODEOWNERS": false,
	} {
		if got := isPipeline(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
	for base, want := range map[string]bool{".": false, ".git": true, ".github": false, ".circleci": false, "x": false, ".cache": true} {
		if got := hidden(base); got != want {
			t.Errorf("hidden %s: %t, want %t", base, got, want)
		}
	}
}
