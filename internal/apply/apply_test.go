package apply

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// desired returns a ConfigMap with an owner.
func desired(text string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{Data: map[string]string{"text": text}}
	c.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	c.Name, c.Namespace, c.Labels = "edge", metav1.NamespaceDefault, naming.Labels("edge")
	c.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "cachenode.io/v1alpha1", Kind: "CacheNode", Name: "edge", UID: "1", Controller: new(true),
	}}
	return c
}

// TestLateCache checks that an object that the cache does not show yet is neither created twice nor taken over. It also
// checks that an object that the cache still shows after its deletion does not count as existing. The API server is
// real; only the content of the client's cache is simulated.
func TestLateCache(t *testing.T) {
	config := apiserver.Start(t)
	live := apiserver.Client(t, config)
	ctx := context.Background()
	// The cache shows the existing object, no object yet, or an object that no longer exists.
	const shows, showsNothing, showsGone = "what is there", "nothing", "what is gone"
	tests := map[string]struct {
		cache string
		// before is an edit that somebody made to the object after its creation.
		before func(*corev1.ConfigMap)
		// text is the text of the object to apply. The existing object has the text "first". With showsGone, no object
		// exists.
		text      string
		absent    bool
		stale     bool
		taken     bool
		outcome   Outcome
		wantsText string
	}{
		"nothing is to do":                   {cache: shows, text: "first", outcome: Unchanged, wantsText: "first"},
		"another text":                       {cache: shows, text: "second", outcome: Updated, wantsText: "second"},
		"not seen yet":                       {cache: showsNothing, text: "second", stale: true, wantsText: "first"},
		"seen since it was taken for absent": {cache: shows, text: "second", absent: true, stale: true, wantsText: "first"},
		"gone, but not for the cache":        {cache: showsGone, text: "second", stale: true},
		"somebody took the label away": {
			cache: showsNothing, before: func(c *corev1.ConfigMap) { delete(c.Labels, naming.LabelManagedBy) },
			text: "second", outcome: Updated, wantsText: "second",
		},
		"somebody else's, in the cache": {
			cache: shows, before: func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "2" },
			text: "second", taken: true, wantsText: "first",
		},
		"somebody else's, not in the cache": {
			cache: showsNothing, before: func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "2" },
			text: "second", taken: true, wantsText: "first",
		},
		"no owner, and not what we have made": {
			cache: showsNothing, before: func(c *corev1.ConfigMap) { c.OwnerReferences, c.Annotations = nil, nil },
			text: "second", taken: true, wantsText: "first",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, outcome, err := Applier{Client: live, Live: live}.Apply(ctx, desired("first"))
			if err != nil || outcome != Created {
				t.Fatalf("%s, %v", outcome, err)
			}
			there := &corev1.ConfigMap{}
			key := client.ObjectKeyFromObject(desired(""))
			must(t, live.Get(ctx, key, there))
			t.Cleanup(func() { must(t, client.IgnoreNotFound(live.Delete(ctx, there))) })
			if test.before != nil {
				test.before(there)
				must(t, live.Update(ctx, there))
			}
			if test.cache == showsGone {
				must(t, live.Delete(ctx, there))
			}
			a := Applier{
				Client: cached(t, config, test.cache == showsNothing, there), Live: live,
				Absent: func(client.Object) bool { return test.absent },
			}
			check := a.Check(ctx, desired(test.text))
			_, outcome, err = a.Apply(ctx, desired(test.text))
			var taken *TakenError
			if errors.Is(err, ErrStale) != test.stale || errors.As(err, &taken) != test.taken || outcome != test.outcome {
				t.Errorf("got %q and %v", outcome, err)
			}
			if test.outcome != "" && (err != nil || check != nil) {
				t.Errorf("the check says %v, then %v", check, err)
			}
			if (test.taken && !errors.As(check, &taken)) || (test.stale && !test.absent && !errors.Is(check, ErrStale)) {
				t.Errorf("the check says %v", check)
			}
			got := &corev1.ConfigMap{}
			must(t, client.IgnoreNotFound(live.Get(ctx, key, got)))
			if got.Data["text"] != test.wantsText {
				t.Errorf("it says %q, want %q", got.Data["text"], test.wantsText)
			}
		})
	}
}

// cached returns a client with a simulated cache. The cache shows the object in the parameter was. If the parameter
// nothing is true, the cache shows no object.
func cached(t *testing.T, config *rest.Config, nothing bool, was *corev1.ConfigMap) client.Client {
	t.Helper()
	through, err := client.NewWithWatch(config, client.Options{Scheme: apiserver.Scheme(t)})
	must(t, err)
	return interceptor.NewClient(through, interceptor.Funcs{
		Get: func(
			_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption,
		) error {
			if nothing {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
			}
			was.DeepCopyInto(object.(*corev1.ConfigMap))
			return nil
		},
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
