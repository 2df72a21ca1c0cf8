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

// offered is what the ConfigMap offers to the pods.
type offered struct {
	state rollout.State
	// texts contains the text of each offered revision, by the ID of the revision.
	texts             map[string]string
	stable, candidate *agentapi.Revision
	// template is the text of the pod template that was applied last.
	template string
	// sharing defines which pods own keys.
	sharing fleet.State
}

// readOffered reads the ConfigMap, which may be nil. It ignores a revision that was edited by hand, so that the pass
// writes the revision again.
func readOffered(configMap *corev1.ConfigMap) offered {
	o := offered{texts: map[string]string{}}
	if configMap == nil {
		return o
	}
	for key, id := range map[string]*string{naming.StableKey: &o.state.Stable, naming.CandidateKey: &o.state.Candidate} {
		text := manifest.RevisionIn(configMap, key)
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

// readSharing returns the sharing state that the ConfigMap stores. It returns the zero value if the ConfigMap stores no
// such state or a damaged one.
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

// offer returns what the ConfigMap must offer to the pods from now on.
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

// originPolicy returns what the operator's flags allow for origins, as text for the agents.
func (c Cluster) originPolicy() (string, error) {
	return agentapi.OriginPolicy{
		DeniedRanges: c.Policy.DeniedOriginRanges, Namespaces: c.Policy.OriginNamespaces,
	}.Text()
}
