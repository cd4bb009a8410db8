package server

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
)

// handler answers GET, HEAD and PUT of objects, and GET /healthz.
type handler struct {
	shelf *shelf
	// tokens is nil where none is asked for.
	tokens *tokens
	log    *slog.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Path == "/healthz" {
		h.healthz(w)
		return
	}
	if h.tokens != nil && !h.tokens.allow(r.Header.Get("Authorization")) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "this token is not one of those in the server's token file")
		return
	}
	key := strings.TrimPrefix(r.URL.Path, "/")
	if !validKey(key) || r.URL.RawQuery != "" {
		refuse(w, http.StatusBadRequest, "a path has segments of letters, digits, -, _, . and ~, at most 200 bytes, and no query")
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		h.get(w, key)
	case http.MethodPut:
		h.put(w, r, key)
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT")
		refuse(w, http.StatusMethodNotAllowed, "objects are read and replaced, nothing else")
	}
}

func (h *handler) healthz(w http.ResponseWriter) {
	if err := h.shelf.health(); err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	_, _ = io.WriteString(w, "ok\n") // who asks may go away
}

func (h *handler) get(w http.ResponseWriter, key string) {
	c, err := h.shelf.read(key)
	switch {
	case err != nil:
		refuse(w, http.StatusInternalServerError, err.Error())
	case c.version == "":
		refuse(w, http.StatusNotFound, "there is no such object")
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("ETag", `"`+c.version+`"`)
		_, _ = w.Write(c.data) // who asks may go away
	}
}

func (h *handler) put(w http.ResponseWriter, r *http.Request, key string) {
	was, ok := condition(r.Header)
	if !ok {
		refuse(w, http.StatusPreconditionRequired, `name what is replaced: If-Match: "ETAG", or If-None-Match: * where there is none yet`)
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, store.MaxObject))
	if err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			refuse(w, http.StatusRequestEntityTooLarge, "an object has 4096 bytes at most")
			return
		}
		refuse(w, http.StatusBadRequest, "the body did not come whole")
		return
	}
	version, err := h.shelf.swap(key, was, data)
	switch {
	case err == nil:
		h.log.Info("object changed", "key", key, "bytes", len(data), "from", r.RemoteAddr)
		w.Header().Set("ETag", `"`+version+`"`)
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errLost):
		refuse(w, http.StatusPreconditionFailed, err.Error())
	case errors.Is(err, errFull):
		h.log.Warn("a change was refused; the object stays as it was", "key", key, "error", err)
		refuse(w, http.StatusInsufficientStorage, err.Error())
	default:
		h.log.Error("a change failed", "key", key, "error", err)
		refuse(w, http.StatusInternalServerError, err.Error())
	}
}

// condition is the version that a PUT replaces, "" for none. Only the two forms are
// taken that name exactly one state.
func condition(header http.Header) (was string, ok bool) {
	match, none := header.Values("If-Match"), header.Values("If-None-Match")
	switch {
	case len(match) == 0 && len(none) == 1 && none[0] == "*":
		return "", true
	case len(match) == 1 && len(none) == 0:
		tag := match[0]
		if len(tag) > 2 && tag[0] == '"' && tag[len(tag)-1] == '"' && !strings.ContainsAny(tag[1:len(tag)-1], `",`) {
			return tag[1 : len(tag)-1], true
		}
	}
	return "", false
}

func refuse(w http.ResponseWriter, status int, text string) {
	http.Error(w, text, status)
}
