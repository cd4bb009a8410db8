package datapath

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// ciliumPath is the agent's DaemonSet, where its installer and most
// distributions have it.
const ciliumPath = "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium"

// Detect finds out what the cluster has, unless text, a setting, says so. It
// needs the right to get the DaemonSet kube-system/cilium. With an error it
// returns what is known nevertheless.
func Detect(ctx context.Context, client *kubeapi.Client, text string) (Datapath, error) {
	d, known, err := Parse(text)
	if err != nil {
		return Datapath{Kind: Unknown}, err
	}
	server, serverErr := client.Version(ctx)
	if !known {
		d, err = look(ctx, client)
	}
	d.Server = server
	if err == nil {
		err = serverErr
	}
	if err != nil {
		return d, fmt.Errorf("detect datapath: %w", err)
	}
	return d, nil
}

func look(ctx context.Context, client *kubeapi.Client) (Datapath, error) {
	data, err := client.Get(ctx, ciliumPath, nil)
	switch {
	case kubeapi.Code(err) == http.StatusNotFound:
		return Datapath{Kind: KubeProxy}, nil
	case err != nil:
		return Datapath{Kind: Unknown}, err
	}
	var set struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Name  string `json:"name"`
						Image string `json:"image"`
					} `json:"containers"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return Datapath{Kind: Unknown}, fmt.Errorf("read daemonset cilium: answer is not the expected JSON")
	}
	for _, c := range set.Spec.Template.Spec.Containers {
		if c.Name == "cilium-agent" {
			return ofImage(c.Image), nil
		}
	}
	return Datapath{Kind: Cilium}, nil
}
