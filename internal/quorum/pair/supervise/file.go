package supervise

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxFile is the most bytes that a configuration file or a manifest may have.
const maxFile = 1 << 20

// fileSettings is what is read of etcd's configuration file, and how etcd
// itself reads it: the same library, names in any case, unknown ones passed over.
type fileSettings struct {
	Name            string      `json:"name"`
	DataDir         string      `json:"data-dir"`
	WALDir          string      `json:"wal-dir"`
	ListenClient    string      `json:"listen-client-urls"`
	ListenHTTP      string      `json:"listen-client-http-urls"`
	ListenPeer      string      `json:"listen-peer-urls"`
	ListenMetrics   string      `json:"listen-metrics-urls"`
	AdvertiseClient string      `json:"advertise-client-urls"`
	AdvertisePeer   string      `json:"initial-advertise-peer-urls"`
	InitialCluster  string      `json:"initial-cluster"`
	ClusterState    string      `json:"initial-cluster-state"`
	Election        uint        `json:"election-timeout"`
	Heartbeat       uint        `json:"heartbeat-interval"`
	ForceNewCluster bool        `json:"force-new-cluster"`
	NoFsync         bool        `json:"unsafe-no-fsync"`
	Discovery       string      `json:"discovery"`
	DiscoverySRV    string      `json:"discovery-srv"`
	Proxy           string      `json:"proxy"`
	ClientTLS       fileTLS     `json:"client-transport-security"`
	PeerTLS         fileTLS     `json:"peer-transport-security"`
	DiscoveryV3     discoveryV3 `json:"discovery-config"`
}

// discoveryV3 is the newer discovery, whose fields have no names of their own.
type discoveryV3 struct {
	Endpoints []string `json:"endpoints"`
	Token     string   `json:"token"`
}

type fileTLS struct {
	Cert       string `json:"cert-file"`
	Key        string `json:"key-file"`
	ClientCert string `json:"client-cert-file"`
	ClientKey  string `json:"client-key-file"`
	CA         string `json:"trusted-ca-file"`
	Auto       bool   `json:"auto-tls"`
}

// parseFile reads a configuration file into the same form as flags.
func parseFile(content []byte) (settings, error) {
	var f fileSettings
	if err := unmarshal(content, &f); err != nil {
		return nil, refuse(Unclear, "correct the file; etcd would not start with it", "configuration file: %v", err)
	}
	s := settings{
		"name": f.Name, "data-dir": f.DataDir, "wal-dir": f.WALDir,
		"listen-client-urls": f.ListenClient, "listen-client-http-urls": f.ListenHTTP, "listen-peer-urls": f.ListenPeer,
		"listen-metrics-urls": f.ListenMetrics, "advertise-client-urls": f.AdvertiseClient,
		"initial-advertise-peer-urls": f.AdvertisePeer, "initial-cluster": f.InitialCluster,
		"initial-cluster-state": f.ClusterState, "discovery": f.Discovery, "discovery-srv": f.DiscoverySRV, "proxy": f.Proxy,
		"discovery-endpoints": strings.Join(f.DiscoveryV3.Endpoints, ","), "discovery-token": f.DiscoveryV3.Token,
		"election-timeout": milliseconds(f.Election), "heartbeat-interval": milliseconds(f.Heartbeat),
		"force-new-cluster": strconv.FormatBool(f.ForceNewCluster), "unsafe-no-fsync": strconv.FormatBool(f.NoFsync),
	}
	for prefix, t := range map[string]fileTLS{"": f.ClientTLS, "peer-": f.PeerTLS} {
		s[prefix+"cert-file"], s[prefix+"key-file"] = t.Cert, t.Key
		s[prefix+"client-cert-file"], s[prefix+"client-key-file"] = t.ClientCert, t.ClientKey
		s[prefix+"trusted-ca-file"], s[prefix+"auto-tls"] = t.CA, strconv.FormatBool(t.Auto)
	}
	return s, nil
}

// milliseconds is empty for 0, which is what an absent one reads as.
func milliseconds(n uint) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// joinFile is the configuration file of a member that joins: the same settings,
// but for the two. It is JSON, which is YAML too.
func joinFile(content []byte, cluster string) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := unmarshal(content, &all); err != nil {
		return nil, fmt.Errorf("copy configuration file: %w", err)
	}
	for name := range all {
		if strings.EqualFold(name, "initial-cluster") || strings.EqualFold(name, "initial-cluster-state") {
			delete(all, name)
		}
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	var err error
	if all["initial-cluster"], err = json.Marshal(cluster); err != nil {
		return nil, fmt.Errorf("copy configuration file: %w", err)
	}
	all["initial-cluster-state"] = json.RawMessage(`"existing"`)
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("copy configuration file: %w", err)
	}
	return append(b, '\n'), nil
}

// unmarshal is yaml.Unmarshal, which panics on some input.
func unmarshal(content []byte, into any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not YAML: %v", r)
		}
	}()
	return yaml.Unmarshal(content, into)
}
