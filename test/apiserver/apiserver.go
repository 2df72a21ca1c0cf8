// Package apiserver starts a real API server with etcd for tests, with the CRD installed.
package apiserver

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// patience is the time limit for the start and for the stop of an API server. It is long enough for a busy machine.
const patience = time.Minute

// Start starts an API server with CacheNode's CRDs and with the CRDs at the paths in definitions. It stops the API
// server when the test ends. KUBEBUILDER_ASSETS names the folder with the binaries of the API server and etcd; make
// test-unit sets this variable from hack/envtest-assets.
func Start(t testing.TB, definitions ...string) *rest.Config {
	t.Helper()
	env, config := begin(t, definitions)
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return config
}

// begin starts an API server. The caller must stop it.
func begin(t testing.TB, definitions []string) (*envtest.Environment, *rest.Config) {
	t.Helper()
	env, config, err := start(definitions)
	// envtest fails if the namespace "default" does not exist five seconds after the first answer of the API server. This
	// time limit cannot be changed, and on a busy machine the API server can be too slow. So begin tries again.
	for range 5 {
		if err == nil {
			break
		}
		t.Logf("the API server is started again: %v", err)
		_ = env.Stop() // it may not have started
		env, config, err = start(definitions)
	}
	if err != nil {
		t.Fatalf("%v\n(use make test-unit, or KUBEBUILDER_ASSETS=$(hack/envtest-assets) go test)", err)
	}
	return env, config
}

func start(definitions []string) (*envtest.Environment, *rest.Config, error) {
	_, file, _, _ := runtime.Caller(0)
	ours := filepath.Join(filepath.Dir(file), "../../config/crd/bases")
	env := &envtest.Environment{
		CRDDirectoryPaths:        append(slices.Clone(definitions), ours),
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: patience},
	}
	config, err := env.Start()
	return env, config, err
}

// GatewayAPI returns the paths of the CRDs of the Gateway API that the operator uses, in the version of go.mod.
func GatewayAPI(t testing.TB) (definitions []string) {
	t.Helper()
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"gatewayclasses", "gateways", "httproutes", "referencegrants"} {
		definitions = append(definitions, filepath.Join(
			strings.TrimSpace(string(folder)), "config/crd/standard/gateway.networking.k8s.io_"+kind+".yaml"))
	}
	return definitions
}

// Scheme returns a scheme with the types of Kubernetes, of the Gateway API and of this project.
func Scheme(t testing.TB) *k8sruntime.Scheme {
	t.Helper()
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{
		clientgoscheme.AddToScheme, gw.Install, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Client returns a client that reads from the API server, not from a cache.
func Client(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
