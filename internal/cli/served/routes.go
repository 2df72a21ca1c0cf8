// Package served reads from a cluster what the operator gives to the pods of a CacheNode.
//
// It may import the packages of the plugin and all pure packages. Another part of the ConfigMap that several verbs need
// belongs here.
package served

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Routes returns the routes in the newest revision of a CacheNode.
func Routes(ctx context.Context, cluster *connect.Cluster, name string) (of routes.Table, err error) {
	configMap := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: naming.ConfigMap(name)}
	if err := cluster.Get(ctx, key, configMap); apierrors.IsNotFound(err) {
		return of, fmt.Errorf("no CacheNode %s in namespace %s, or the operator has not configured it yet",
			name, cluster.Namespace)
	} else if err != nil {
		return of, fmt.Errorf("the configuration of CacheNode %s: %w", name, err)
	}
	text := manifest.RevisionIn(configMap, naming.CandidateKey)
	if text == "" {
		text = manifest.RevisionIn(configMap, naming.StableKey)
	}
	revision, err := agentapi.ReadRevision([]byte(text))
	if err != nil {
		return of, fmt.Errorf("the configuration of CacheNode %s: %w", name, err)
	}
	return revision.Routes, nil
}
