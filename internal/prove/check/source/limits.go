package source

import "errors"

// Limits bound what is read.
type Limits struct {
	// Total is the sum of all files, unpacked.
	Total int64
	// Document is the largest file that is parsed whole: YAML, and settings.
	Document int64
	// Object is the largest object of a list, and the largest line.
	Object int64
	// NodeFile is the largest file of a node.
	NodeFile int64
	// Files is how many files there may be.
	Files int
	// Nodes is how many values one YAML document may have once its aliases are
	// followed, Depth how deep they may be nested.
	Nodes, Depth int
	// Problems is how many are named; more are counted.
	Problems int
}

// DefaultLimits leave room for a cluster of 5,000 nodes: a Pod has about 10 kB.
func DefaultLimits() Limits {
	return Limits{
		Total: 4 << 30, Document: 32 << 20, Object: 4 << 20, NodeFile: 1 << 20,
		Files: 200_000, Nodes: 2_000_000, Depth: 200, Problems: 50,
	}
}

// The reasons why something is not read.
var (
	errTotal    = errors.New("unpacks to more than the limit; is this the right file?")
	errFiles    = errors.New("more files than the limit; is this the right directory?")
	errDocument = errors.New("too large to be parsed whole; give lists as JSON, one object a line")
	errObject   = errors.New("an object larger than any that etcd stores; is this the right file?")
	errNodeFile = errors.New("too large for a file of settings")
	errDepth    = errors.New("nested too deep; no object of Kubernetes is")
	errNodes    = errors.New("aliases expand without end; write the values out")
	errOutside  = errors.New("leads out of the archive; refused")
	errKind     = errors.New("neither a file nor a directory; refused")
)
