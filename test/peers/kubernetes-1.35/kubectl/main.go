// Command kubectl is kubectl 1.35.4 as released, built from the module proxy
// so that the lab has one of its own version. It adds nothing.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
