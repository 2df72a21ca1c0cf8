package controllers

import (
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/rollout"
)

// offered is what the ConfigMap offers the pods.
type offered struct {
	state rollout.State
	// texts has the revisions as text, by ID.
	texts             map[string]string
	stable, candidate *agentapi.Revision
	// template is the pod template that was applied last, as text.
	template string
	// sharing says which pods own keys.
	sharing fleet.State
}

// readOffered reads the ConfigMap, which may be nil. It ignores a revision that was edited by hand, so the pass writes
// it again.
func readOffered(configMap *corev1.ConfigMap) offered {
	o := offered{texts: map[string]string{}}
	if configMap == nil {
		return o
	}
	for key, id := range map[string]*string{naming.StableKey: &o.state.Stable, naming.CandidateKey: &o.state.Candidate} {
		text := configMap.Data[key]
		if !agentapi.IsWhole([]byte(text)) {
			continue
		}
		revision, err := agentapi.ReadRevision([]byte(text))
		if err != nil {
			continue
		}
		*id, o.texts[revision.ID] = revision.ID, text
		if key == naming.StableKey {
			o.stable = &revision
		} else {
			o.candidate = &revision
		}
	}
	o.template = configMap.Annotations[naming.AnnotationTemplate]
	o.sharing = readSharing(configMap)
	if text := configMap.Annotations[naming.AnnotationRefused]; text != "" {
		refused := &agentapi.Refusal{}
		if json.Unmarshal([]byte(text), refused) == nil {
			o.state.Refused = refused
		}
	}
	return o
}

// readSharing returns the state of sharing in the ConfigMap; the zero value if there is none or it was damaged.
func readSharing(configMap *corev1.ConfigMap) (s fleet.State) {
	f, err := fleet.Read(configMap.Data[naming.FleetKey])
	if err != nil {
		return s
	}
	s.Fleet = f
	if until, err := time.Parse(time.RFC3339, configMap.Annotations[naming.AnnotationFleet]); err == nil {
		s.Until = until
	}
	return s
}

// offer returns what the ConfigMap is to offer the pods.
func (r *CacheNodeReconciler) offer(
	o observed, w wanted, state rollout.State, sharing fleet.State,
) (c manifest.ConfigMap, err error) {
	wanted, err := json.Marshal(w.target.Revision)
	if err != nil {
		return c, err
	}
	texts := maps.Clone(o.offered.texts)
	texts[w.target.Revision.ID] = string(wanted)
	c.Stable, c.Candidate = texts[state.Stable], texts[state.Candidate]
	if c.OriginPolicy, err = r.Cluster.originPolicy(); err != nil {
		return c, err
	}
	if state.Refused != nil {
		refused, err := json.Marshal(state.Refused)
		if err != nil {
			return c, err
		}
		c.Refused = string(refused)
	}
	if sharing.Serial > 0 {
		c.Fleet, c.FleetUntil = sharing.String(), naming.Never
		if !sharing.Until.IsZero() {
			c.FleetUntil = sharing.Until.UTC().Format(time.RFC3339)
		}
	}
	return c, nil
}

// originPolicy returns what the operator's flags say about origins, as text for the agents.
func (c Cluster) originPolicy() (string, error) {
	return agentapi.OriginPolicy{
		DeniedRanges: c.Policy.DeniedOriginRanges, Namespaces: c.Policy.OriginNamespaces,
	}.Text()
}
