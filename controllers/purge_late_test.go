package controllers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// certified is a client that has every Secret, with certificates for agents.
type certified struct {
	client.Client
	data map[string][]byte
}

func (c certified) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.(*corev1.Secret).Data = c.data //nolint:forcetypeassert // nothing else is read
	return nil
}

// TestLateAnswersAreBounded checks that an agent that answers after each pass, and never applies anything, causes few
// passes more than those that are due.
func TestLateAnswersAreBounded(t *testing.T) { synctest.Test(t, testLateAnswersAreBounded) }

func testLateAnswersAreBounded(t *testing.T) {
	cacheNode := &v1alpha1.CacheNode{}
	cacheNode.Namespace, cacheNode.Name, cacheNode.UID = "default", "edge", "1"
	certificates, _, err := pki.Renew(nil, naming.AgentName(cacheNode.Namespace, cacheNode.Name), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a := agents.New(clock.RealClock{}, nil)
	a.Calls.Purge = func(context.Context, *agentclient.Client, string, purge.Update) (purge.Done, error) {
		time.Sleep(passPatience + time.Millisecond)
		return purge.Done{}, nil
	}
	r := &PurgeReconciler{
		Client: certified{data: certificates}, Agents: a, Clock: clock.RealClock{},
		errands: make(errands), sending: semaphore.NewWeighted(sendBytes),
		late: make(chan event.TypedGenericEvent[*v1alpha1.CacheNode], 1024),
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := a.Start(ctx, nil); err != nil { // so that its queues end
		t.Fatal(err)
	}
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
	if due := int(time.Minute / behindInterval); passes > lateBurst+2*due {
		t.Errorf("%d passes in a minute", passes)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
