// Command manager is the CacheNode operator.
package main

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // every way in which a kubeconfig can authenticate
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/controllers"
	nginxcache "github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// options are the command's flags.
type options struct {
	metricsAddress, probeAddress string
	leaderElection               bool
	clusterDomain, resolvers     string
	log                          zap.Options
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "where metrics are served over TLS to clients that the API server authenticates and authorizes; 0 switches them off")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8082", "where /healthz and /readyz are served")
	flags.BoolVar(&o.leaderElection, "leader-elect", false, "work only while holding the lease, so that one of several replicas works at a time")
	flags.StringVar(&o.clusterDomain, "cluster-domain", "cluster.local", "the domain of the cluster's Services")
	flags.StringVar(&o.resolvers, "resolvers", "", "comma-separated addresses of the DNS servers that nginx asks for the origin; default: those in this pod's /etc/resolv.conf")
	o.log.BindFlags(flags)
	return o, flags.Parse(args)
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2) // the flag package has said why
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	if err := run(o, ctrl.GetConfigOrDie()); err != nil {
		ctrl.Log.Error(err, "the operator ends")
		os.Exit(1)
	}
}

func run(o options, config *rest.Config) error {
	resolvers, err := findResolvers(o.resolvers, "/etc/resolv.conf")
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  controllers.CacheOptions(),
		Metrics:                metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization},
		HealthProbeBindAddress: o.probeAddress,
		LeaderElection:         o.leaderElection,
		LeaderElectionID:       "manager.cachenode.io",
		// The process ends right after the manager does, so the next one need not wait for the lease to run out.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	references, err := cache.New(config, cache.Options{
		Scheme: scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(references); err != nil {
		return err
	}
	reconciler := &controllers.CacheNodeReconciler{
		Client: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("cachenode-operator"),
		Facts:  nginxcache.Facts{Resolvers: resolvers, ClusterDomain: o.clusterDomain},
	}
	if err := reconciler.SetupWithManager(mgr, references); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// findResolvers reads the flag or, where it is empty, resolv.conf: a pod with the default DNS policy finds there the
// cluster's own DNS, which the cache pods can reach too.
func findResolvers(flag, resolvConf string) ([]string, error) {
	var servers []string
	if flag != "" {
		servers = strings.Split(flag, ",")
	} else {
		config, err := dns.ClientConfigFromFile(resolvConf)
		if err != nil {
			return nil, fmt.Errorf("no --resolvers, and %w", err)
		}
		servers = config.Servers
	}
	for i, s := range servers {
		address, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("--resolvers: %w", err)
		}
		servers[i] = address.WithZone("").String()
		if address.Is6() {
			servers[i] = "[" + servers[i] + "]"
		}
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("no DNS server in %s: give --resolvers", resolvConf)
	}
	return servers, nil
}
