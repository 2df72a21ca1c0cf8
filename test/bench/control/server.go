package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// user is the operator's user on the API server. The audit log contains only the requests of this user.
const user = "measured-operator"

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, users: [` + user + `]}
`

// server is a real API server with an audit log.
type server struct {
	env        *envtest.Environment
	client     client.Client
	kubeconfig string
	auditLog   string
}

// serve starts an API server whose files are in the folder dir.
func serve(dir string) (s *server, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	policy := filepath.Join(dir, "policy.yaml")
	s = &server{
		env:        &envtest.Environment{CRDDirectoryPaths: []string{"config/crd/bases"}, ErrorIfCRDPathMissing: true},
		kubeconfig: filepath.Join(dir, "kubeconfig"), auditLog: filepath.Join(dir, "audit.log"),
	}
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	s.env.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", s.auditLog).
		Set("audit-log-maxsize", "10000").             // in megabytes; large enough that the log is never rotated
		Set("service-cluster-ip-range", "10.0.0.0/16") // enough for all Services
	config, err := s.env.Start()
	if err != nil {
		return nil, fmt.Errorf("%w (KUBEBUILDER_ASSETS=$(hack/envtest-assets) names the API server)", err)
	}
	defer func() {
		if err != nil {
			_ = s.env.Stop()
		}
	}()
	config.QPS = -1
	if s.client, err = client.New(config, client.Options{}); err != nil {
		return nil, err
	}
	measured, err := s.env.AddUser(envtest.User{Name: user, Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := measured.KubeConfig()
	if err != nil {
		return nil, err
	}
	return s, os.WriteFile(s.kubeconfig, kubeconfig, 0o600)
}

// create creates CacheNodes.
func (s *server) create(ctx context.Context, count int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range count {
		group.Go(func() error {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(fmt.Appendf(nil, cacheNode, name(i)), o); err != nil {
				return err
			}
			return s.client.Create(ctx, o)
		})
	}
	return group.Wait()
}

func name(i int) string { return fmt.Sprintf("edge-%04d", i) }

// count returns the number of StatefulSets.
func (s *server) count(ctx context.Context) (int, error) {
	list := &appsv1.StatefulSetList{}
	err := s.client.List(ctx, list)
	return len(list.Items), err
}

// calls counts the operator's requests to the API server, except watches.
type calls struct {
	// Reads is the number of gets and lists. DryRuns is the number of dry runs, which are writes that change nothing.
	// Writes contains the number of the other writes that succeeded, including writes of events, by verb and resource.
	Reads   int            `json:"reads"`
	DryRuns int            `json:"dryRuns"`
	Writes  map[string]int `json:"writes"`
	// Total is the sum of the numbers in Writes.
	Total int `json:"totalWrites"`
	// Failed is the number of requests that were answered with an error. The status codes 404 and 409 do not count,
	// because they occur in normal operation.
	Failed int `json:"failed"`
	last   time.Time
}

// each calls f for each event of the audit log that refers to an object of the API.
func (s *server) each(f func(auditv1.Event)) error {
	text, err := os.ReadFile(s.auditLog)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return err
		}
		if e.ObjectRef != nil {
			f(e)
		}
	}
	return lines.Err()
}

// audit returns the numbers of the requests that the API server received between two times.
func (s *server) audit(from, to time.Time) (calls, error) {
	c := calls{Writes: map[string]int{}}
	err := s.each(func(e auditv1.Event) {
		if at := e.RequestReceivedTimestamp.Time; at.Before(from) || at.After(to) {
			return
		}
		code := int32(0)
		if e.ResponseStatus != nil {
			code = e.ResponseStatus.Code
		}
		if code >= 400 && code != 404 && code != 409 {
			c.Failed++
		}
		switch {
		case e.Verb == "watch":
		case e.Verb == "get" || e.Verb == "list":
			c.Reads++
		case strings.Contains(e.RequestURI, "dryRun="):
			c.DryRuns++
		case code < 400:
			resource := e.ObjectRef.Resource
			if e.ObjectRef.Subresource != "" {
				resource += "/" + e.ObjectRef.Subresource
			}
			c.Writes[e.Verb+" "+resource]++
			c.Total++
			c.last = e.StageTimestamp.Time
		}
	})
	return c, err
}

// patched returns the time at which the first patch or update of an object ended. It counts only requests that
// arrived later than the given time.
func (s *server) patched(resource, name string, after time.Time) (at time.Time, err error) {
	err = s.each(func(e auditv1.Event) {
		write := e.Verb == "patch" || e.Verb == "update"
		if e.ObjectRef.Resource == resource && e.ObjectRef.Name == name && write &&
			at.IsZero() && e.RequestReceivedTimestamp.After(after) {
			at = e.StageTimestamp.Time
		}
	})
	if err == nil && at.IsZero() {
		err = fmt.Errorf("%s %s was never written", resource, name)
	}
	return at, err
}
