package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Preconditions say which state of an object may be deleted; empty fields do
// not matter. An object in another state gives 409.
type Preconditions struct {
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Delete removes the object at path if it is in the state that must says.
func (c *Client) Delete(ctx context.Context, path string, must Preconditions) error {
	options := struct {
		Kind          string         `json:"kind"`
		APIVersion    string         `json:"apiVersion"`
		Preconditions *Preconditions `json:"preconditions,omitempty"`
	}{Kind: "DeleteOptions", APIVersion: "v1"}
	if must != (Preconditions{}) {
		options.Preconditions = &must
	}
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, request{method: http.MethodDelete, path: path, body: body})
	return err
}

// ServerVersion is what an API server says of itself.
type ServerVersion struct {
	Major, Minor int
	// Git is the full version, e.g. "v1.35.4+k3s1".
	Git string
}

// AtLeast says that the server is of version major.minor or newer.
func (v ServerVersion) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// Version asks for the server's version, which every client may read.
func (c *Client) Version(ctx context.Context) (ServerVersion, error) {
	data, err := c.Get(ctx, "/version", nil)
	if err != nil {
		return ServerVersion{}, err
	}
	v, err := parseVersion(data)
	if err != nil {
		return ServerVersion{}, fmt.Errorf("get /version: %w", err)
	}
	return v, nil
}

func parseVersion(data []byte) (ServerVersion, error) {
	var raw struct {
		Major      string `json:"major"`
		Minor      string `json:"minor"`
		GitVersion string `json:"gitVersion"`
	}
	if err := decodeJSON(data, &raw); err != nil {
		return ServerVersion{}, err
	}
	// Managed clusters write "30+".
	major, err1 := strconv.Atoi(strings.TrimRight(raw.Major, "+"))
	minor, err2 := strconv.Atoi(strings.TrimRight(raw.Minor, "+"))
	if err1 != nil || err2 != nil {
		return ServerVersion{}, fmt.Errorf("version %.20q.%.20q is not two numbers; is this a Kubernetes API?", raw.Major, raw.Minor)
	}
	return ServerVersion{Major: major, Minor: minor, Git: oneLine(raw.GitVersion)}, nil
}
