package connect

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// completionTimeout is the longest time for which a shell waits for names.
const completionTimeout = 3 * time.Second

// completion is a function that completes an argument or the value of a flag.
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeFlags completes the values of kubectl's flags.
func (f *Flags) completeFlags(command *cobra.Command) {
	for name, complete := range map[string]completion{
		"namespace": f.fromCluster(func(ctx context.Context, cluster *Cluster, _ []string) ([]string, error) {
			namespaces := &corev1.NamespaceList{}
			err := cluster.List(ctx, namespaces)
			return namesOf(namespaces.Items, func(n corev1.Namespace) string { return n.Name }), err
		}),
		"context": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			config, err := f.config.ToRawKubeConfigLoader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
		},
	} {
		_ = command.RegisterFlagCompletionFunc(name, complete) // fails only for a flag that does not exist
	}
}

// CompleteNames completes the first argument with the names of the existing CacheNodes.
func (f *Flags) CompleteNames(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.fromCacheNodes(func(list []v1alpha1.CacheNode, _ []string) []string {
		return namesOf(list, func(c v1alpha1.CacheNode) string { return c.Name })
	})(command, args, word)
}

// CompletePods completes the first argument with the names of the pods of CacheNodes.
func (f *Flags) CompletePods(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.fromCacheNodes(podsAndDisks)(command, args, word)
}

// CompleteDisks completes the first argument with the names of pods, and the others with the names of a pod's disks.
func (f *Flags) CompleteDisks(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return f.fromCacheNodes(podsAndDisks)(command, args, word)
}

// CompleteNodes completes the first argument with the names of nodes.
func (f *Flags) CompleteNodes(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.fromCluster(func(ctx context.Context, cluster *Cluster, _ []string) ([]string, error) {
		nodes := &corev1.NodeList{}
		err := cluster.List(ctx, nodes)
		return namesOf(nodes.Items, func(n corev1.Node) string { return n.Name }), err
	})(command, args, word)
}

// podsAndDisks returns the names that can come next in the arguments POD DISK.... The first argument is a pod of the
// CacheNodes. Each other argument is a disk of this pod that is not among the arguments yet. podsAndDisks is pure.
func podsAndDisks(cacheNodes []v1alpha1.CacheNode, args []string) (names []string) {
	for _, c := range cacheNodes {
		for _, pod := range c.Status.Pods {
			if len(args) == 0 {
				names = append(names, pod.Name)
			}
		}
		if len(args) == 0 || !strings.HasPrefix(args[0], c.Name+"-") || strings.Contains(args[0][len(c.Name)+1:], "-") {
			continue
		}
		for _, d := range c.Spec.Disks {
			if !slices.Contains(args[1:], d.Name) {
				names = append(names, d.Name)
			}
		}
	}
	return names
}

// fromCacheNodes returns a completion whose names are computed from the CacheNodes of the namespace.
func (f *Flags) fromCacheNodes(names func(list []v1alpha1.CacheNode, args []string) []string) completion {
	return f.fromCluster(func(ctx context.Context, cluster *Cluster, args []string) ([]string, error) {
		cacheNodes := &v1alpha1.CacheNodeList{}
		err := cluster.List(ctx, cacheNodes, client.InNamespace(cluster.Namespace))
		return names(cacheNodes.Items, args), err
	})
}

// fromCluster returns a completion whose names are read from the cluster.
func (f *Flags) fromCluster(names func(context.Context, *Cluster, []string) ([]string, error)) completion {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		cluster, err := f.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
		defer cancel()
		list, err := names(ctx, cluster, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

func namesOf[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = name(one)
	}
	return names
}
