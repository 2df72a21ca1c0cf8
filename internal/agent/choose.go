package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// offers are the revisions in the ConfigMap. candidate is nil if no candidate is being tried.
type offers struct{ stable, candidate *agentapi.Revision }

// readOffers reads the folder of the ConfigMap. If one revision cannot be read, it returns an error together with the
// other revision.
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
	if text, err = agentapi.Unpack(text); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	revision, err := agentapi.ReadRevision(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return &revision, nil
}

// choose returns the revision that the pod is to run. The annotation and the ConfigMap may reach the pod in either
// order. While the ConfigMap does not contain the revision that the annotation names, the pod keeps the running
// revision. A pod that runs nothing yet takes the stable revision. choose is pure.
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
