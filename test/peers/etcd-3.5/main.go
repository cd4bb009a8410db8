// Command etcd is etcd 3.5.35 as released, built from the module proxy so that
// the lab can run the agents against it. It adds nothing.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
