package source

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// Open reads what path leads to: a bundle or any other tar of its layout, a
// directory, or one file of manifests. An error means that nothing could be read;
// what could not be read of it is among the facts' Problems.
func Open(path string, limits Limits) (*fact.Facts, error) {
	t, origin, err := treeOf(path, limits)
	if err != nil {
		return nil, err
	}
	f, err := read(t, origin, limits)
	if err != nil {
		return nil, err
	}
	f.Root = rootOfFile(path)
	if _, ok := t.(directory); ok {
		f.Root = filepath.ToSlash(path)
	}
	return f, nil
}

// OpenAll is Open on parts of one cluster: its bundle, and those of its machines. A
// machine that is in two of them is a Problem, and the first one is taken.
func OpenAll(paths []string, limits Limits) (*fact.Facts, error) {
	if len(paths) == 1 {
		return Open(paths[0], limits)
	}
	r := newReader(strings.Join(paths, ", "), limits)
	for _, path := range paths {
		if err := r.target(path); err != nil {
			return nil, err
		}
	}
	return r.finish(), nil
}

// treeOf is what a path leads to, and what people call it.
func treeOf(path string, limits Limits) (t tree, origin string, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("read %s: %w", path, plain(err))
	case info.IsDir():
		return directory{path}, "the directory " + path, nil
	case isArchive(path):
		return archive{path, limits.Total}, "the bundle " + path, nil
	case info.Mode().IsRegular():
		return single{path}, "the file " + path, nil
	}
	return nil, "", fmt.Errorf("read %s: %w", path, errKind)
}

// rootOfFile is what the names in a file are below of: a bundle's are below the
// bundle, a file of manifests is itself in its directory.
func rootOfFile(path string) string {
	if isArchive(path) {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(filepath.Dir(path))
}

func isArchive(name string) bool {
	for _, suffix := range []string{".tgz", ".tar.gz", ".tar"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// Read is Open on the contents of a bundle. Name stands for it in messages.
func Read(r io.Reader, name string, limits Limits) (*fact.Facts, error) {
	return read(stream{r, limits.Total}, name, limits)
}

type stream struct {
	r     io.Reader
	total int64
}

func (s stream) walk(visit func(entry) error, bad func(string, error)) error {
	return readTar(s.r, s.total, visit, bad)
}

// reader fills facts from a tree.
type reader struct {
	facts  *fact.Facts
	limits Limits
	left   int64 // bytes that may still be read
	files  int
	// whole are the kinds and parts that the bundle says were read, or were not;
	// they are declared when all is read.
	stated map[string]fact.Known
	// broken are the kinds that could not be read whole, and why.
	broken map[fact.Kind]string
	more   int
	// from is the target that is being read, where there are several; nodesFrom are
	// those in which a machine was first.
	from      string
	nodesFrom map[string]string
	twice     map[string]bool
	// gathered is what a must-gather has of etcd, in several files.
	gathered etcdInfo
	// objectsRead are sums of all objects, to know one that comes again.
	objectsRead map[uint64]struct{}
	seed        maphash.Seed
}

func newReader(origin string, limits Limits) *reader {
	return &reader{
		facts: &fact.Facts{Origin: origin, Ignored: map[string]int{}}, limits: limits, left: limits.Total,
		stated: map[string]fact.Known{}, broken: map[fact.Kind]string{},
		nodesFrom: map[string]string{}, twice: map[string]bool{}, objectsRead: map[uint64]struct{}{}, seed: maphash.MakeSeed(),
	}
}

func read(t tree, origin string, limits Limits) (*fact.Facts, error) {
	r := newReader(origin, limits)
	if err := r.tree(t, origin); err != nil {
		return nil, err
	}
	return r.finish(), nil
}

// target reads one of several.
func (r *reader) target(path string) error {
	t, origin, err := treeOf(path, r.limits)
	if err != nil {
		return err
	}
	r.from = path
	return r.tree(t, origin)
}

// tree reads all files of one target. An error says that there was none.
func (r *reader) tree(t tree, origin string) error {
	before := r.files
	err := t.walk(r.visit, r.bad)
	if err != nil && r.files == before {
		return err
	}
	if err != nil {
		// All that was read stands, but nobody knows what is missing.
		r.problem(origin, err)
		for _, k := range fact.Kinds() {
			r.broken[k] = err.Error()
		}
	}
	return nil
}

// finish declares what is known and what is not.
func (r *reader) finish() *fact.Facts {
	r.gathered.add(r.facts)
	for key, k := range r.stated {
		r.facts.Declare(key, k)
	}
	for kind, why := range r.broken {
		r.facts.Declare(string(kind), fact.Known{State: fact.Unknown, Why: why})
	}
	if r.more > 0 {
		r.facts.Note(r.facts.Origin, "%d more problems like these", r.more)
	}
	r.facts.Index()
	return r.facts
}

func (r *reader) problem(where string, err error) {
	if len(r.facts.Problems) >= r.limits.Problems {
		r.more++
		return
	}
	r.facts.Note(where, "%s", err)
}

// bad notes a file that could not be opened, and what it spoils.
func (r *reader) bad(name string, err error) {
	r.problem(name, err)
	r.spoil(name, err)
}

// spoil makes the facts that a file would have had unknown. A file of a node is
// missed alone; of a file of objects nobody knows which kinds it had, unless its
// name says so.
func (r *reader) spoil(name string, err error) {
	why := fmt.Sprintf("%s: %s", name, err)
	switch {
	case strings.HasPrefix(name, "nodes/"):
		node, file := nodeFile(name)
		r.stated["files/"+node+file] = fact.Known{State: fact.Unknown, Why: why}
		return
	case strings.HasPrefix(name, "probes."):
		r.broken[fact.Probes] = why
		return
	case strings.HasPrefix(name, "lookups."):
		r.broken[fact.Lookups] = why
		return
	case strings.HasPrefix(name, "etcd.") || isEtcdInfo(name):
		r.broken[fact.Etcd] = why
		return
	case strings.HasPrefix(name, "kubeconfigs/"):
		r.broken[fact.Kubeconfigs] = why
		return
	case isPipeline(name):
		r.broken[fact.Pipelines] = why
		return
	}
	if kind, ok := kindOfFile(name); ok {
		r.broken[kind] = why
		return
	}
	for _, kind := range apiKinds {
		r.broken[kind] = why
	}
}

// kindOfFile tells from a name such as objects/pods.ndjson or kube-system/pods.json
// what is in it.
func kindOfFile(name string) (fact.Kind, bool) {
	base, _, _ := strings.Cut(path.Base(name), ".")
	for _, kind := range apiKinds {
		if strings.ReplaceAll(base, "-", "") == string(kind) {
			return kind, true
		}
	}
	return "", false
}

func (r *reader) visit(e entry) error {
	if r.files++; r.files > r.limits.Files {
		return errFiles
	}
	if e.size > r.left {
		return errTotal
	}
	r.left -= e.size
	var err error
	switch dir, base := path.Dir(e.name), path.Base(e.name); {
	case dir == "." && isDocument(base, "bundle"):
		err = r.bundle(e)
	case dir == "." && isDocument(base, "probes"):
		err = r.probes(e)
	case dir == "." && isDocument(base, "lookups"):
		err = r.lookups(e)
	case dir == "." && isDocument(base, "etcd"):
		err = r.etcd(e)
	case isEtcdInfo(e.name):
		err = r.etcdInfo(e)
	case strings.HasPrefix(e.name, "nodes/"):
		err = r.nodeFile(e)
	case dir == "kubeconfigs":
		err = r.kubeconfig(e)
	case isPipeline(e.name):
		err = r.pipeline(e)
	case isObjects(base):
		err = r.objects(e)
	}
	if err == nil {
		return nil
	}
	if fatal(err) {
		return err
	}
	r.problem(where(e.name, err), err)
	r.spoil(e.name, err)
	return nil
}

// fatal says that the tree itself cannot be read on.
func fatal(err error) bool {
	return errors.Is(err, errTotal) || errors.Is(err, io.ErrUnexpectedEOF)
}

func isDocument(base, name string) bool {
	ext := filepath.Ext(base)
	return strings.TrimSuffix(base, ext) == name && (ext == ".json" || ext == ".yaml" || ext == ".yml")
}

func isObjects(base string) bool {
	switch filepath.Ext(base) {
	case ".json", ".yaml", ".yml", ".ndjson":
		return true
	}
	return false
}

// whole reads a file that is parsed as one piece.
func (r *reader) whole(e entry, most int64, tooLarge error) ([]byte, error) {
	if e.size > most {
		return nil, tooLarge
	}
	data, err := io.ReadAll(io.LimitReader(e.r, most+1))
	if err != nil {
		return nil, plain(err)
	}
	if int64(len(data)) > most {
		return nil, tooLarge
	}
	return data, nil
}

// lineError is an error at a line of a file.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }

// where is a file's name with the line that an error carries.
func where(name string, err error) string {
	if at, ok := errors.AsType[*lineError](err); ok {
		return fmt.Sprintf("%s:%d", name, at.line)
	}
	return name
}
