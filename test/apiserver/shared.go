package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/cachenode/cachenode-operator/test/await"
)

// pool contains the API servers that no test uses at the moment.
var pool struct {
	mutex sync.Mutex
	open  bool
	idle  []*shared
}

// shared is an API server that tests use one after another.
type shared struct {
	env    *envtest.Environment
	config *rest.Config
	client metadata.Interface
	// kinds are the kinds of objects that tests can create. own contains the UIDs of the objects that the API server
	// itself has created.
	kinds []schema.GroupVersionResource
	own   map[types.UID]bool
}

// Run runs the tests of a package that uses Shared, and then stops the API servers. The TestMain of the package calls
// it.
func Run(m *testing.M) int {
	pool.open = true
	code := m.Run()
	for _, s := range pool.idle {
		if err := s.env.Stop(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	return code
}

// Shared returns an API server with CacheNode's CRDs. The test must not change these CRDs and must not create
// namespaces. If the API server of an earlier test is idle, Shared returns this server, because a new one takes seconds
// to start and to stop. The returned API server contains no objects of earlier tests.
func Shared(t testing.TB) *rest.Config {
	t.Helper()
	if !pool.open {
		t.Fatal("the package needs a TestMain that calls apiserver.Run")
	}
	s := take()
	if s == nil {
		env, config := begin(t, nil)
		s = &shared{env: env, config: config}
		if err := s.remember(); err != nil {
			t.Fatal(errors.Join(err, env.Stop()))
		}
	}
	t.Cleanup(func() {
		s.empty(t)
		pool.mutex.Lock()
		defer pool.mutex.Unlock()
		pool.idle = append(pool.idle, s)
	})
	return s.config
}

func take() *shared {
	pool.mutex.Lock()
	defer pool.mutex.Unlock()
	n := len(pool.idle)
	if n == 0 {
		return nil
	}
	s := pool.idle[n-1]
	pool.idle = pool.idle[:n-1]
	return s
}

// remember stores the kinds that a new API server knows, and the objects that it contains.
func (s *shared) remember() (err error) {
	if s.client, err = metadata.NewForConfig(s.config); err != nil {
		return err
	}
	d, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return err
	}
	lists, err := d.ServerPreferredResources()
	if err != nil {
		return err
	}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, kind := range list.APIResources {
			// These kinds are left out. The API server itself creates and deletes leases and the addresses of Services. A
			// namespace cannot be deleted here, because the controller that completes the deletion does not run.
			if slices.Contains([]string{"leases", "ipaddresses", "namespaces"}, kind.Name) ||
				!slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") {
				continue
			}
			s.kinds = append(s.kinds, group.WithResource(kind.Name))
		}
	}
	s.own = map[types.UID]bool{}
	return s.each("", func(_ schema.GroupVersionResource, o metav1.PartialObjectMetadata) error {
		s.own[o.UID] = true
		return nil
	})
}

// each calls f with each object. version is the resource version of the list requests: "" reads the latest version,
// and "0" reads the version in the API server's cache, as operators do.
func (s *shared) each(version string, f func(schema.GroupVersionResource, metav1.PartialObjectMetadata) error) error {
	for _, kind := range s.kinds {
		list, err := s.client.Resource(kind).List(context.Background(), metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
		for _, o := range list.Items {
			if err := f(kind, o); err != nil {
				return fmt.Errorf("%s %s/%s: %w", kind, o.Namespace, o.Name, err)
			}
		}
	}
	return nil
}

// empty deletes the objects that a test has created. It also removes their finalizers, and waits until none of these
// objects is left.
func (s *shared) empty(t testing.TB) {
	t.Helper()
	for _, version := range []string{"", "0"} {
		await.Until(t, func() string {
			left := ""
			err := s.each(version, func(kind schema.GroupVersionResource, o metav1.PartialObjectMetadata) error {
				isSystem := strings.HasPrefix(o.Namespace, "kube-") || o.Name == "kubernetes" // may be created only now
				if isSystem || s.own[o.UID] {
					return nil
				}
				left = fmt.Sprintf("%s %s/%s is left", kind, o.Namespace, o.Name)
				return client.IgnoreNotFound(s.remove(kind, o))
			})
			if err != nil {
				t.Fatal(err)
			}
			return left
		})
	}
}

func (s *shared) remove(kind schema.GroupVersionResource, o metav1.PartialObjectMetadata) error {
	ctx, objects := context.Background(), s.client.Resource(kind).Namespace(o.Namespace)
	if len(o.Finalizers) > 0 {
		none := []byte(`{"metadata":{"finalizers":null}}`)
		if _, err := objects.Patch(ctx, o.Name, types.MergePatchType, none, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return objects.Delete(ctx, o.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &o.UID},
	})
}
