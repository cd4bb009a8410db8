package source

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// suppressing keeps the annotation of an object that has it. Few do, and only their
// metadata is decoded a second time.
func (r *reader) suppressing(data []byte, at fact.Location) error {
	if !bytes.Contains(data, []byte(fact.SuppressAnnotation)) {
		return nil
	}
	var object struct {
		Metadata struct {
			Namespace   string            `json:"namespace"`
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("read annotations: %w", err)
	}
	text, ok := object.Metadata.Annotations[fact.SuppressAnnotation]
	if !ok {
		return nil // it only speaks of it
	}
	at.Object.Namespace, at.Object.Name = object.Metadata.Namespace, object.Metadata.Name
	if at.Object.Kind == "Node" {
		at.Node = at.Object.Name
	}
	_, mirror := object.Metadata.Annotations[corev1.MirrorPodAnnotationKey]
	r.facts.Suppressing = append(r.facts.Suppressing, fact.Annotation{Text: text, At: at.Field("metadata", "annotations", fact.SuppressAnnotation), Mirror: mirror})
	return nil
}
