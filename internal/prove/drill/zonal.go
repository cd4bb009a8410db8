package drill

const zonalTelemetry = "127.0.0.1:9388"

// zonalConfig is the file of `holdfast zonal run --config`.
type zonalConfig struct {
	API struct {
		Kubeconfig string   `yaml:"kubeconfig"`
		Servers    []string `yaml:"servers"`
	} `yaml:"api"`
	Lease struct {
		Namespace string `yaml:"namespace"`
	} `yaml:"lease"`
	Telemetry struct {
		Listen string `yaml:"listen"`
	} `yaml:"telemetry"`
	Log struct {
		Format string `yaml:"format"`
	} `yaml:"log"`
}

// zonalConfig is the replica's in site: it asks the apiserver of its site first.
func (e *engine) zonalConfig(site string) zonalConfig {
	var c zonalConfig
	c.API.Kubeconfig = e.apiservers[site].PKI().AdminConf
	c.API.Servers = e.serversFrom(site)
	c.Lease.Namespace = "kube-system"
	c.Telemetry.Listen = zonalTelemetry
	c.Log.Format = "json"
	return c
}

// serversFrom lists the apiservers for a client in site, its own first; the
// balancer of its node before them in a run that has one.
func (e *engine) serversFrom(site string) []string {
	var out []string
	if e.c.HasBalancers(e.agents) {
		out = append(out, "https://"+balanceListen)
	}
	out = append(out, e.apiservers[site].URL())
	for _, other := range e.c.SiteNames() {
		if other != site {
			out = append(out, e.apiservers[other].URL())
		}
	}
	return out
}
