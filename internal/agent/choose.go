package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// offers are the revisions in the ConfigMap. candidate is nil if none is being tried.
type offers struct{ stable, candidate *agentapi.Revision }

// readOffers reads the folder of the ConfigMap. It returns an error for a revision that cannot be read, and the other
// revision.
func readOffers(dir string) (offers, error) {
	stable, err := readOffer(filepath.Join(dir, naming.StableKey))
	candidate, candidateErr := readOffer(filepath.Join(dir, naming.CandidateKey))
	if errors.Is(candidateErr, os.ErrNotExist) {
		candidateErr = nil
	}
	return offers{stable: stable, candidate: candidate}, errors.Join(err, candidateErr)
}

func readOffer(path string) (*agentapi.Revision, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if err != nil {
		return nil, err
	}
	revision, err := agentapi.ReadRevision(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return &revision, nil
}

// choose returns the revision that the pod is to run. The annotation and the ConfigMap reach the pod in either order.
// While the revision that the annotation names is not in the ConfigMap, the running revision stays; a pod that runs
// nothing yet takes stable. choose is pure.
func choose(o offers, annotation string, running *agentapi.Revision) *agentapi.Revision {
	switch {
	case o.candidate != nil && o.candidate.ID == annotation:
		return o.candidate
	case o.stable != nil && (o.stable.ID == annotation || annotation == ""):
		return o.stable
	case running != nil:
		return running
	}
	return o.stable
}
