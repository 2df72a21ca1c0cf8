// Command manager is the CacheNode operator.
//
// It contains only flags and wiring, and may import any package except those of the agent and the plugin. Code that
// does more goes into package controllers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // all authentication methods of a kubeconfig
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/controllers"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// version is set at link time.
var version = "unknown"

// options are the command's flags.
type options struct {
	metricsAddress, metricsCerts string
	probeAddress                 string
	leaderElection               bool
	clusterDomain, resolvers     string
	images                       manifest.Images
	policy                       policyFlags
	watchNamespaces              string
	concurrency, maxVolumes      int
	log                          zap.Options
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(),
			"usage: manager [FLAGS], or manager check [FLAGS], which checks that an operator works")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443",
		"the address for metrics over TLS, for clients that the API server authenticates and authorizes; "+
			"0 switches metrics off")
	flags.StringVar(&o.metricsCerts, "metrics-cert-dir", "",
		"a folder with tls.crt and tls.key, for the metrics, which are read again when they change; "+
			"default: a certificate that is made at each start and that nobody can check")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8082", "the address for /healthz and /readyz")
	flags.BoolVar(&o.leaderElection, "leader-elect", false,
		"work only while this replica holds the lease, so that one of several works at a time")
	flags.StringVar(&o.clusterDomain, "cluster-domain", "cluster.local", "the domain of the cluster's Services")
	flags.StringVar(&o.resolvers, "resolvers", "",
		"comma-separated addresses of the DNS servers that cache pods ask for names; "+
			"default: those in each cache pod's /etc/resolv.conf")
	flags.StringVar(&o.images.Agent, "agent-image", "",
		"the image from which new cache pods get the agent; "+
			"default: the image of the pod that the environment variables POD_NAMESPACE and POD_NAME name")
	flags.StringVar(&o.images.Nginx, "nginx-image", v1alpha1.DefaultImage,
		"the nginx image of cache pods whose CacheNode names none (spec.pod.image), best with a digest; "+
			"pods get another one when they are replaced because of an edit or of the annotation cachenode.io/restart")
	flags.StringVar((*string)(&o.images.AgentPullPolicy), "agent-image-pull-policy", "",
		"the pull policy of that image: Always, IfNotPresent or Never; default: the cluster's")
	o.policy.bind(flags)
	flags.StringVar(&o.watchNamespaces, "watch-namespaces", "",
		"comma-separated namespaces whose CacheNodes the operator manages; default: all")
	flags.IntVar(&o.concurrency, "max-concurrent-reconciles", 8,
		"the number of CacheNodes that are reconciled at a time, at least 1")
	flags.IntVar(&o.maxVolumes, "max-volumes-per-namespace", 1000,
		"the largest number of PersistentVolumes for the CacheNodes of one namespace together; 0: no limit")
	o.log.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if _, err := reference.ParseNormalizedNamed(o.images.Nginx); err != nil {
		err := fmt.Errorf("--nginx-image: %q: %w: want an image such as registry.example.com/nginx:1.30.6",
			o.images.Nginx, err)
		fmt.Fprintln(os.Stderr, err)
		return o, err
	}
	if o.concurrency < 1 {
		err := fmt.Errorf("--max-concurrent-reconciles is %d, want at least 1", o.concurrency)
		fmt.Fprintln(os.Stderr, err)
		return o, err
	}
	if o.maxVolumes < 0 {
		err := fmt.Errorf("--max-volumes-per-namespace is %d, want 0 or more", o.maxVolumes)
		fmt.Fprintln(os.Stderr, err)
		return o, err
	}
	return o, nil
}

// ownImage returns the image of the container that this program runs in.
func ownImage(ctx context.Context, reader client.Reader, namespace, name string) (string, error) {
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return "", fmt.Errorf("no --agent-image, and this pod's own (POD_NAMESPACE and POD_NAME): %w", err)
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == "manager" {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("no --agent-image, and pod %s/%s has no container \"manager\"", namespace, name)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "check" {
		if err := check(os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2) // parse has printed why
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	if err := run(o, ctrl.GetConfigOrDie()); err != nil {
		ctrl.Log.Error(err, "the operator ends")
		os.Exit(1)
	}
}

// list splits the value of a flag at its commas.
func list(flag string) []string {
	return strings.FieldsFunc(flag, func(r rune) bool { return r == ',' })
}

func run(o options, config *rest.Config) error {
	var resolvers []string
	if o.resolvers != "" {
		var err error
		if resolvers, err = conf.Resolvers(strings.Split(o.resolvers, ",")); err != nil {
			return fmt.Errorf("--resolvers: %w", err)
		}
	}
	policy, err := o.policy.policy(o.clusterDomain, os.Getenv("KUBERNETES_SERVICE_HOST"))
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, gw.Install} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	caches := controllers.CacheOptions()
	for _, namespace := range list(o.watchNamespaces) {
		if caches.DefaultNamespaces == nil { // nil means all namespaces
			caches.DefaultNamespaces = map[string]cache.Config{}
		}
		caches.DefaultNamespaces[namespace] = cache.Config{}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Cache:  caches,
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress, SecureServing: true, CertDir: o.metricsCerts,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		HealthProbeBindAddress: o.probeAddress,
		LeaderElection:         o.leaderElection,
		LeaderElectionID:       lease,
		// The process ends right after the manager does, so the next operator need not wait until the lease expires.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	if o.images.Agent == "" {
		namespace, name := os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME")
		if o.images.Agent, err = ownImage(context.Background(), mgr.GetAPIReader(), namespace, name); err != nil {
			return err
		}
	}
	watched := list(o.watchNamespaces)
	references, endpoints, err := setupReferences(mgr, caches.DefaultNamespaces, watched)
	if err != nil {
		return err
	}
	exchange, err := setupGateways(mgr, references, policy.ClusterDomain, caches.DefaultNamespaces, watched)
	if err != nil {
		return err
	}
	reconciler := &controllers.CacheNodeReconciler{
		Client: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("cachenode-operator"),
		Agents: agents.New(clock.RealClock{}, nil), Exchange: exchange,

		Concurrency: o.concurrency, Endpoints: endpoints,
		Cluster: controllers.Cluster{
			Version: version,
			Domain:  policy.ClusterDomain, Resolvers: resolvers,
			Images:     o.images,
			Policy:     policy,
			MaxVolumes: o.maxVolumes,
			Namespaces: watched,
		},
	}
	if err := reconciler.SetupWithManager(mgr, references); err != nil {
		return err
	}
	purges := &controllers.PurgeReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Agents: reconciler.Agents, Concurrency: o.concurrency,
	}
	if err := setupPurges(mgr, purges, watched); err != nil {
		return err
	}
	collector := &controllers.Collector{Reader: mgr.GetClient(), Elected: mgr.Elected()}
	if err := metrics.Registry.Register(collector); err != nil {
		return err
	}
	err = errors.Join(mgr.AddHealthzCheck("healthz", healthz.Ping), mgr.AddReadyzCheck("readyz", healthz.Ping))
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
