package controllers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// emptySecrets is a client that has every Secret, with nothing in it.
type emptySecrets struct{ client.Client }

func (emptySecrets) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// TestLateAnswersAreBounded checks that an agent that answers after each pass, and never applies anything, causes few
// passes more than those that are due.
func TestLateAnswersAreBounded(t *testing.T) { synctest.Test(t, testLateAnswersAreBounded) }

func testLateAnswersAreBounded(t *testing.T) {
	cacheNode := &v1alpha1.CacheNode{}
	cacheNode.Namespace, cacheNode.Name, cacheNode.UID = "default", "edge", "1"
	a := &Agents{clients: map[types.NamespacedName]versionedClient{
		client.ObjectKeyFromObject(cacheNode): {client: &agentclient.Client{}},
	}}
	a.send = func(context.Context, *agentclient.Client, string, purge.Update) (purge.Done, error) {
		time.Sleep(passPatience + time.Millisecond)
		return purge.Done{}, nil
	}
	r := &PurgeReconciler{
		Client: emptySecrets{}, Agents: a, Clock: clock.RealClock{},
		errands: make(errands), sending: semaphore.NewWeighted(sendBytes),
		late: make(chan event.TypedGenericEvent[*v1alpha1.CacheNode], 1024),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.errands.Start(ctx) }()
	j := newJournal("1")
	j.log.Add(time.Now(), purge.Rule{UID: "a", Target: purge.Target{Everything: true}})
	pod := corev1.Pod{}
	pod.Name, pod.UID, pod.Status.PodIP = "edge-0", "a", "10.0.0.1"
	passes := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); passes++ {
		p := &purging{cacheNode: cacheNode, now: time.Now(), pods: []corev1.Pod{pod}}
		r.send(ctx, p, j, false)
		select {
		case <-r.late:
		case <-time.After(j.due(p)):
		}
	}
	if due := int(time.Minute / behindInterval); passes > newsBurst+2*due {
		t.Errorf("%d passes in a minute", passes)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
