package drill

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
)

const slicesTelemetry = "127.0.0.1:9387"

// slicesConfig is the file of `holdfast slices run --config`.
type slicesConfig struct {
	Node      string `yaml:"node"`
	Apiserver struct {
		CA       string `yaml:"ca"`
		Cert     string `yaml:"cert"`
		Key      string `yaml:"key"`
		Identity string `yaml:"identity"`
	} `yaml:"apiserver"`
	API struct {
		Servers    []string `yaml:"servers"`
		Kubeconfig string   `yaml:"kubeconfig"`
	} `yaml:"api"`
	Witnesses []string `yaml:"witnesses,omitempty"`
	Telemetry struct {
		Listen string `yaml:"listen"`
	} `yaml:"telemetry"`
	Log struct {
		Format string `yaml:"format"`
	} `yaml:"log"`
}

// slicesConfig is the agent's in site. Its zone and address are those that the
// Node says.
func (e *engine) slicesConfig(site string) slicesConfig {
	var c slicesConfig
	a := e.apiservers[site]
	pki := a.PKI()
	c.Node = a.Node().Name()
	c.Apiserver.CA, c.Apiserver.Cert, c.Apiserver.Key = pki.CA, pki.KubeletCert, pki.KubeletKey
	c.Apiserver.Identity = c.Node
	c.API.Servers, c.API.Kubeconfig = e.serversFrom(site), pki.AdminConf
	for _, s := range e.c.Lab.Sites {
		if s.Witness {
			c.Witnesses = append(c.Witnesses, e.c.Zone(s.Name))
		}
	}
	c.Telemetry.Listen = slicesTelemetry
	c.Log.Format = "json"
	return c
}

// slicesEvents maps the messages of the slices agent, and the problems that it
// states and takes back, to kinds of events.
var slicesEvents = map[string]string{
	"own apiserver is ready":            record.KindJudged,
	problemPrefix + "apiserver-unready": record.KindJudged,
	"wrote":                             record.KindWrote,
}

// problemPrefix is before the code of a problem, whose message is a sentence.
const problemPrefix = "problem "

func slicesMessage(msg string, keys map[string]string) string {
	switch msg {
	case "wrote":
		return fmt.Sprintf("wrote %s: %s", keys["object"], keys["why"])
	case "well again":
		return "own apiserver is ready again"
	}
	return msg
}
