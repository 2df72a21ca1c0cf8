// Package podobjects asks the pods of a CacheNode what they have cached, for the plugin's verbs that list cached
// objects.
//
// It imports podexec, and purge and objects for the types of questions and answers. Code for new questions about cached
// objects to the agent's program belongs here.
package podobjects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/podexec"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// Store contains what a disk of a pod, or the memory tier of a pod, has cached.
type Store struct {
	Pod string
	objects.Store
}

// Where returns the name of the store, as POD/DISK.
func (s Store) Where() string { return s.Pod + "/" + s.Name }

// IsMemory returns true for a memory tier.
func (s Store) IsMemory() bool { return s.Name == purge.MemoryStore }

const (
	// askTimeout is the time limit for a pod's answer. A listing examines every object that matches.
	askTimeout = 2 * time.Minute
	// copyTimeout is the time limit for a pod's search for one object.
	copyTimeout = 10 * time.Second
	// atOnce is the number of pods that are asked at the same time.
	atOnce = 16
)

// Ask sends a query to all pods of a CacheNode. problems says what is missing from the result. Ask needs the rights
// to get CacheNodes, and to get and create pods/exec.
func Ask(
	ctx context.Context, cluster *connect.Cluster, name string, q objects.Query,
) (stores []Store, problems []string, err error) {
	cacheNode := &v1alpha1.CacheNode{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, cacheNode); err != nil {
		return nil, nil, err
	}
	if err := q.Target.Check(sites.Own(cacheNode.Spec).Cache); err != nil {
		return nil, nil, err
	}
	pods := cacheNode.Status.Pods
	answers, failed := make([]objects.Answer, len(pods)), make([]error, len(pods))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, pod := range pods {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			answers[i], failed[i] = ask[objects.Answer](ctx, cluster, pod.Name, "objects", q)
			return nil
		})
	}
	_ = group.Wait() // none of the functions returns an error
	for i, pod := range pods {
		if failed[i] != nil {
			problems = append(problems, failed[i].Error())
		}
		for _, s := range answers[i].Stores {
			store := Store{pod.Name, s}
			stores = append(stores, store)
			if s.Problem != "" {
				problems = append(problems, store.Where()+": "+s.Problem)
			}
		}
	}
	if len(stores) == 0 {
		return nil, nil, fmt.Errorf("no pod of CacheNode %s has answered: %w", name, errors.Join(failed...))
	}
	return stores, problems, nil
}

// Copy asks a pod what it has cached of an object. It needs the rights to get and create pods/exec.
func Copy(ctx context.Context, cluster *connect.Cluster, pod string, q objects.Lookup) (objects.Copy, error) {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	found, err := ask[objects.Copy](ctx, cluster, pod, "copy", q)
	if err != nil && strings.Contains(err.Error(), "want install DIR, run") { // the agent does not know the verb
		return found, fmt.Errorf("%s: its agent is older than this plugin: restart the pod", pod)
	}
	return found, err
}

// ask sends a question to the agent of a pod. To do so, it runs the agent's program in the pod with a verb.
func ask[A any](ctx context.Context, cluster *connect.Cluster, pod, verb string, question any) (answer A, err error) {
	query, err := json.Marshal(question)
	if err != nil {
		return answer, err
	}
	text, err := podexec.RunWith(
		ctx, cluster, pod, layout.AgentContainer, bytes.NewReader(query), layout.AgentDir+"/agent", verb)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("%s: the answer of its agent: %w", pod, err)
	}
	return answer, nil
}

// Size returns a number of bytes as a text for people.
func Size(bytes int64) string { return humanize.IBytes(uint64(max(bytes, 0))) }

// Incomplete returns an error that lists problems; nil if there are none.
func Incomplete(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("that is not all:\n  %s", strings.Join(problems, "\n  "))
}
