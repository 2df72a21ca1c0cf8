// Command purge-api is the HTTP endpoint for purges. Application servers use it instead of the API server.
//
// It contains only flags and wiring, for which it imports purgeapi. Code that does more goes into that package.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/purgeapi"
)

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2) // parse has printed why
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	if err := run(ctrl.SetupSignalHandler(), o, ctrl.GetConfigOrDie()); err != nil {
		ctrl.Log.Error(err, "the endpoint for purges ends")
		os.Exit(1)
	}
}

// run serves until the context ends.
func run(ctx context.Context, o options, config *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Cache:  purgeapi.CacheOptions(o.api.Namespaces),
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress, SecureServing: true, CertDir: o.metricsCerts,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		HealthProbeBindAddress: o.probeAddress,
	})
	if err != nil {
		return err
	}
	numbers := purgeapi.NewMetrics()
	if err := metrics.Registry.Register(numbers); err != nil {
		return err
	}
	server, err := purgeapi.New(ctx, mgr, o.api, numbers)
	if err != nil {
		return fmt.Errorf("CachePurges cannot be watched (is the CustomResourceDefinition installed?): %w", err)
	}
	listener := &purgeapi.Listener{
		Address: o.address, CertFile: o.certFile, KeyFile: o.keyFile, Handler: server.Handler(),
	}
	if err := mgr.Add(listener); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("readyz", listener.Ready); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
