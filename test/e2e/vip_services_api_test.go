package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	stdslices "slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// objects is an API that keeps Services, slices, Leases and Events as a
// kube-apiserver does, as far as agents that answer for Services can tell: versions,
// merge patches, preconditions and watches. The suite with a real one is
// TestVIPServices; here a wire has nothing on it but the agents.
type objects struct {
	mu      sync.Mutex
	changed *sync.Cond
	version int
	all     map[string]map[string]any // by path
	log     []revision
	// deaf answers nobody any more.
	deaf bool
}

type revision struct {
	version int
	path    string
	kind    string
	object  map[string]any
}

func newObjects() *objects {
	o := &objects{all: map[string]map[string]any{}, version: 100}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// serve serves the API on the client's station, and returns a kubeconfig.
func (w *wire) serve(o *objects) string {
	w.t.Helper()
	client := w.segment.Station(w.machines + 1)
	server := httptest.NewUnstartedServer(o)
	err := client.Do(func() (err error) {
		_ = server.Listener.Close()
		server.Listener, err = listen(client.Four.String() + ":6443")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	server.StartTLS()
	w.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	ca := filepath.Join(w.dir, "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.dir, "kubeconfig")
	text := fmt.Sprintf("current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\nclusters: [{name: x, cluster: {server: 'https://%s:6443', certificate-authority: %s, tls-server-name: example.com}}]\nusers: [{name: x, user: {token: t}}]\n",
		client.Four, ca)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// collection is the path of the objects of an object's kind in all namespaces, or
// of Leases in their one.
func collection(path string) string {
	dir := path[:strings.LastIndexByte(path, '/')]
	if strings.HasSuffix(dir, "/leases") {
		return dir
	}
	before, after, ok := strings.Cut(dir, "/namespaces/")
	if !ok {
		return dir
	}
	return before + after[strings.IndexByte(after, '/'):]
}

// put stores an object as an administrator does.
func (o *objects) put(path string, object map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old := o.all[path]; old != nil {
		object["status"] = old["status"]
		for _, k := range []string{"uid", "creationTimestamp"} {
			object["metadata"].(map[string]any)[k] = old["metadata"].(map[string]any)[k]
		}
	}
	o.store(path, object)
}

// store gives an object its version. The lock is held.
func (o *objects) store(path string, object map[string]any) {
	o.version++
	meta := object["metadata"].(map[string]any)
	meta["resourceVersion"] = strconv.Itoa(o.version)
	kind := "MODIFIED"
	if o.all[path] == nil {
		kind = "ADDED"
		meta["uid"] = "uid-" + strconv.Itoa(o.version)
		meta["creationTimestamp"] = fmt.Sprintf("2026-01-01T00:00:00.%06dZ", o.version)
	}
	o.all[path] = object
	o.note(kind, path, object)
}

func (o *objects) remove(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object := copyOf(o.all[path])
	delete(o.all, path)
	o.version++
	object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(o.version)
	o.note("DELETED", path, object)
}

func (o *objects) note(kind, path string, object map[string]any) {
	o.log = append(o.log, revision{o.version, path, kind, copyOf(object)})
	o.changed.Broadcast()
}

func copyOf(object map[string]any) (c map[string]any) {
	data, _ := json.Marshal(object)
	_ = json.Unmarshal(data, &c)
	return c
}

// get returns a copy of an object, nil if it is not there.
func (o *objects) get(path string) map[string]any {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[path] == nil {
		return nil
	}
	return copyOf(o.all[path])
}

// under are the objects of a collection.
func (o *objects) under(path string) (all []map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range stdslices.Sorted(maps.Keys(o.all)) {
		if collection(p) == path {
			all = append(all, copyOf(o.all[p]))
		}
	}
	return all
}

// silence has the API answer nobody, or everybody again.
func (o *objects) silence(on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deaf = on
	o.changed.Broadcast()
}

// selects says that an object has the label of a selector "k=v" and the name of a
// selector of fields; other selectors select all.
func selects(r *http.Request, object map[string]any) bool {
	meta := object["metadata"].(map[string]any)
	if name, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); ok && meta["name"] != name {
		return false
	}
	k, v, ok := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	if !ok {
		return true
	}
	labels, _ := meta["labels"].(map[string]any)
	return labels[k] == v
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deaf {
		panic(http.ErrAbortHandler)
	}
	path := strings.TrimSuffix(r.URL.Path, "/status")
	switch {
	case r.URL.Query().Get("watch") == "true":
		o.watch(w, r)
	case r.Method == http.MethodGet && o.all[path] == nil && plural(path):
		o.list(w, r)
	case r.Method == http.MethodPost:
		o.create(w, path, body)
	case o.all[path] == nil:
		refused(w, http.StatusNotFound)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(o.all[path])
	default:
		o.change(w, r.Method, path, body)
	}
}

func plural(path string) bool {
	return stdslices.ContainsFunc([]string{"/services", "/endpointslices", "/leases", "/events", "/nodes"}, func(s string) bool { return strings.HasSuffix(path, s) })
}

func refused(w http.ResponseWriter, code int) {
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","code":%d}`, code)
}

func (o *objects) list(w http.ResponseWriter, r *http.Request) {
	items := []any{}
	for _, p := range stdslices.Sorted(maps.Keys(o.all)) {
		if collection(p) == r.URL.Path && selects(r, o.all[p]) {
			items = append(items, o.all[p])
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]string{"resourceVersion": strconv.Itoa(o.version)}, "items": items})
}

func (o *objects) create(w http.ResponseWriter, path string, body []byte) {
	var object map[string]any
	_ = json.Unmarshal(body, &object)
	meta := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if name == "" {
		name = fmt.Sprint(meta["generateName"], o.version)
	}
	if path += "/" + name; o.all[path] != nil {
		refused(w, http.StatusConflict)
		return
	}
	o.store(path, object)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(object)
}

// change patches or deletes.
func (o *objects) change(w http.ResponseWriter, method, path string, body []byte) {
	var patch map[string]any
	_ = json.Unmarshal(body, &patch)
	must, _ := patch["metadata"].(map[string]any)
	if method == http.MethodDelete {
		must, _ = patch["preconditions"].(map[string]any)
	}
	meta := o.all[path]["metadata"].(map[string]any)
	for _, k := range []string{"resourceVersion", "uid"} {
		if must[k] != nil && must[k] != meta[k] {
			refused(w, http.StatusConflict)
			return
		}
	}
	if method == http.MethodDelete {
		object := o.all[path]
		delete(o.all, path)
		o.version++
		o.note("DELETED", path, object)
		_, _ = io.WriteString(w, "{}")
		return
	}
	object := merged(o.all[path], patch).(map[string]any)
	o.store(path, object)
	_ = json.NewEncoder(w).Encode(object)
}

// merged is RFC 7386.
func merged(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if t, ok := target.(map[string]any); ok {
		maps.Copy(out, t)
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merged(out[k], v)
		}
	}
	return out
}

// watch tells of changes until the client has enough. The lock is held, but for
// the waiting.
func (o *objects) watch(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	stop := contextDone(r, o)
	defer stop()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for i := 0; r.Context().Err() == nil && !o.deaf; {
		for ; i < len(o.log); i++ {
			c := o.log[i]
			if c.version <= from || collection(c.path) != r.URL.Path || !selects(r, c.object) {
				continue
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": c.kind, "object": c.object})
		}
		w.(http.Flusher).Flush()
		o.changed.Wait()
	}
	if o.deaf {
		panic(http.ErrAbortHandler)
	}
}

func (o *objects) status(t *testing.T, service string) string {
	t.Helper()
	s := o.get("/api/v1/namespaces/default/services/" + service)
	status, _ := s["status"].(map[string]any)
	balancer, _ := status["loadBalancer"].(map[string]any)
	all, _ := balancer["ingress"].([]any)
	var words []string
	for _, i := range all {
		words = append(words, fmt.Sprint(i.(map[string]any)["ip"]))
	}
	return strings.Join(words, ", ")
}
