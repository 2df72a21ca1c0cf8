package manifest

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// ConfigMap contains the configurations that the operator offers to the pods' agents: the stable one, and the
// candidate while it is being tried.
type ConfigMap struct {
	// Stable and Candidate are revisions as text. Candidate is "" if no candidate is being tried. Stable is "" if it was
	// lost.
	Stable, Candidate string
	// Refused is the value of naming.AnnotationRefused; "" if no candidate was refused.
	Refused string
	// Fleet is the text that defines which pods share keys. FleetUntil is the value of naming.AnnotationFleet. Both are
	// "" if no pods share keys.
	Fleet, FleetUntil string
	// OriginPolicy is the text of an agentapi.OriginPolicy; "" for a policy without restrictions.
	OriginPolicy string
}

func configMap(in Input) *corev1.ConfigMap {
	template, err := json.Marshal(in.Template)
	if err != nil {
		panic(err) // not possible for Kubernetes' own types
	}
	meta := objectMeta(in, naming.ConfigMap(in.CacheNode.Name))
	meta.Annotations = map[string]string{naming.AnnotationTemplate: string(template)}
	if in.Config.Refused != "" {
		meta.Annotations[naming.AnnotationRefused] = in.Config.Refused
	}
	if in.Config.FleetUntil != "" {
		meta.Annotations[naming.AnnotationFleet] = in.Config.FleetUntil
	}
	data := map[string]string{}
	if in.Config.Fleet != "" {
		data[naming.FleetKey] = in.Config.Fleet
	}
	if in.Config.OriginPolicy != "" {
		data[naming.OriginPolicyKey] = in.Config.OriginPolicy
	}
	var binary map[string][]byte
	texts := map[string]string{naming.StableKey: in.Config.Stable, naming.CandidateKey: in.Config.Candidate}
	for key, text := range texts {
		switch stored, isPacked := agentapi.Pack(text); {
		case text == "":
		case !isPacked:
			data[key] = text
		case binary == nil:
			binary = map[string][]byte{key: stored}
		default:
			binary[key] = stored
		}
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta,
		Data:       data,
		BinaryData: binary,
	}
}

// RevisionIn returns the text of the revision that a ConfigMap of the operator contains under a key; "" if there is
// none, or if it is damaged.
func RevisionIn(configMap *corev1.ConfigMap, key string) string {
	if text := configMap.Data[key]; text != "" {
		return text
	}
	text, err := agentapi.Unpack(configMap.BinaryData[key])
	if err != nil {
		return ""
	}
	return string(text)
}
