// Package connect connects the plugin's verbs to the cluster that the user's kubeconfig and flags select.
//
// It imports the API's types only. New ways to select the cluster or the user belong here.
package connect

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Flags are kubectl's own flags for the selection of a cluster, such as --context and --namespace.
type Flags struct {
	config *genericclioptions.ConfigFlags
}

// Add adds the flags to a command.
func Add(command *cobra.Command) *Flags {
	f := &Flags{config: genericclioptions.NewConfigFlags(true)}
	f.config.AddFlags(command.Flags())
	f.completeFlags(command)
	return f
}

// Cluster is a connection to a cluster, with the namespace that the user selected.
type Cluster struct {
	client.Client
	Kubernetes kubernetes.Interface
	Config     *rest.Config
	Namespace  string
}

// Connect prepares a connection. It does not send a request yet.
func (f *Flags) Connect() (*Cluster, error) {
	config, err := f.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := f.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfig(config)
	return &Cluster{Client: c, Kubernetes: typed, Config: config, Namespace: namespace}, err
}
