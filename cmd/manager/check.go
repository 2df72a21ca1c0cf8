package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

// lease is the name of the Lease that decides which of several operators is active.
const lease = "manager.cachenode.io"

// checkTimeout limits the check. An operator that has just been installed needs time to get the lease.
const checkTimeout = time.Minute

// trial is a CacheNode that the API server must accept.
const trial = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: cachenode-check}
spec:
  disks: [{name: disk1, size: 1Gi}]
  origin: {servers: [{service: {name: origin, port: 80}}]}
  hosts: [check.invalid]
`

// check runs the command "manager check", which "helm test" uses. It checks that an operator is active, and that the
// API server accepts a valid CacheNode and rejects an invalid one. It creates nothing: its requests are dry runs.
func check(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("manager check", flag.ContinueOnError)
	leaseNamespace := flags.String("lease-namespace", os.Getenv("POD_NAMESPACE"), "the operator's namespace")
	namespace := flags.String("namespace", os.Getenv("POD_NAMESPACE"), "a namespace in which a CacheNode may be tried")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	holder, err := awaitLeader(ctx, c, *leaseNamespace)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "ok: at work is", holder)
	if err := tryCacheNode(ctx, c, *namespace); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "ok: the API server takes a CacheNode, and refuses one without disks")
	return err
}

// awaitLeader waits until an operator holds the lease and renews it. It returns the identity of that operator.
func awaitLeader(ctx context.Context, c client.Client, namespace string) (string, error) {
	key := client.ObjectKey{Namespace: namespace, Name: lease}
	for {
		l := &coordinationv1.Lease{}
		problem := c.Get(ctx, key, l)
		if problem == nil {
			s := l.Spec
			if s.HolderIdentity != nil && *s.HolderIdentity != "" && s.RenewTime != nil && s.LeaseDurationSeconds != nil &&
				time.Since(s.RenewTime.Time) < time.Duration(*s.LeaseDurationSeconds)*time.Second {
				return *s.HolderIdentity, nil
			}
			problem = errors.New("nobody holds it, or it is not renewed")
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no operator is at work: lease %s: %w", key, problem)
		case <-time.After(time.Second):
		}
	}
}

// tryCacheNode checks by dry runs that the API server accepts a CacheNode, and rejects a CacheNode without disks.
func tryCacheNode(ctx context.Context, c client.Client, namespace string) error {
	cacheNode, errs, err := schema.Decode([]byte(trial))
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	cacheNode.Namespace = namespace
	if err := c.Create(ctx, cacheNode.DeepCopy(), client.DryRunAll); err != nil {
		return fmt.Errorf("the API server does not take a CacheNode: %w", err)
	}
	cacheNode.Spec.Disks = nil
	if err := c.Create(ctx, cacheNode, client.DryRunAll); !apierrors.IsInvalid(err) {
		return fmt.Errorf("the API server does not refuse a CacheNode without disks: %w", err)
	}
	return nil
}
