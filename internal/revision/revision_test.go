package revision_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

const edge = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 10Gi}, {name: disk2, size: 10Gi}]
  origin: {servers: [{service: {name: origin, port: 80}}]}
`

func cacheNode(t *testing.T, text string) (agentapi.Revision, []byte) {
	t.Helper()
	object, errs, err := schema.Decode([]byte(text))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	n, err := revision.Of(effective.CacheNode{CacheNode: object}, revision.Outside{ClusterDomain: "cluster.local"})
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return n, written
}

// TestOperatorAndAgentRenderTheSame checks that the operator and the agent render the same configuration. The operator
// uses the revision itself, and the agent uses the revision that it reads from the encoded text.
func TestOperatorAndAgentRenderTheSame(t *testing.T) {
	n, text := cacheNode(t, edge)
	read, err := agentapi.ReadRevision(text)
	if err != nil {
		t.Fatal(err)
	}
	facts := cache.Facts{}
	operator, err := cache.Render(cache.Input{Revision: n, Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := cache.Render(cache.Input{Revision: read, Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(operator.Text, agent.Text); diff != "" || operator.Version != agent.Version {
		t.Errorf("operator and agent differ:\n%s", diff)
	}
}

// TestRevisionsOfANewerOperatorAreRead checks that an agent can read a revision that a newer operator has written. The
// agent ignores unknown fields.
func TestRevisionsOfANewerOperatorAreRead(t *testing.T) {
	_, text := cacheNode(t, edge)
	newer := strings.NewReplacer(
		`{"format":1,`, `{"format":7,"news":{"a":[1]},`,
		`"spec":{`, `"spec":{"unheardOf":{"x":true},`,
		`"media":"HDD"`, `"media":"HDD","colour":"red"`,
	).Replace(string(text))
	read, err := agentapi.ReadRevision([]byte(newer))
	if err != nil || len(read.Spec.Disks) != 2 {
		t.Errorf("error %v, %+v", err, read)
	}
	incompatible := strings.Replace(newer, `"minReader":1`, `"minReader":7`, 1)
	if _, err := agentapi.ReadRevision([]byte(incompatible)); err == nil ||
		!strings.Contains(err.Error(), "restart the pod") {
		t.Errorf("what only newer agents understand: error %v", err)
	}
	for _, damaged := range []string{"", "{", "{}", `{"format":1,"minReader":1,"revision":"a"}`} {
		if _, err := agentapi.ReadRevision([]byte(damaged)); err == nil {
			t.Errorf("%q: no error", damaged)
		}
	}
}

// TestDefaultsAreLeftOut checks that a revision does not contain the defaults of fields that were added later.
// Otherwise its ID would change, and an upgrade of the operator would reload every nginx.
func TestDefaultsAreLeftOut(t *testing.T) {
	_, text := cacheNode(t, edge+"  listen: {tls: {secretName: edge-tls}}\n")
	for _, field := range []string{
		"ttl", "ignore", "gzip", "http2", "http3", "headers", "Combined", "slice", "query", "bypass", "clientAddress",
	} {
		if strings.Contains(string(text), field) {
			t.Errorf("%s is in %s", field, text)
		}
	}
	if !strings.HasPrefix(string(text), `{"format":1,"minReader":1,`) {
		t.Errorf("it begins with %.40s", text)
	}
}

// TestOlderAgents checks the format of revisions with newer fields. An older agent must refuse such a revision if it
// would not be safe to ignore the field.
func TestOlderAgents(t *testing.T) {
	check := func(want int, specs ...string) {
		for _, fields := range specs {
			if n, _ := cacheNode(t, edge+"  "+fields+"\n"); n.MinReader != want || n.Format != want {
				t.Errorf("%q: format %d, minReader %d; want %d", fields, n.Format, n.MinReader, want)
			}
		}
	}
	check(1, "", "listen: {gzip: {enabled: true}}")
	check(2,
		"cache: {bypass: {cookies: [session]}}",
		"cache: {query: {drop: [a]}}",
		"cache: {slice: {size: 1Mi}}",
		"listen: {clientAddress: {source: ProxyProtocol, trustedCIDRs: [10.0.0.0/8]}}",
		"headers: {request: {remove: [Cookie]}}",
		"headers: {response: {set: [{name: X-Frame-Options, value: DENY}]}}")
	check(5, "cache: {ttl: [{status: [200], max: 1h}]}", "cache: {ignore: [Private]}")
}

func TestRevision(t *testing.T) {
	base, text := cacheNode(t, edge)
	other := func(old, with string) string {
		n, _ := cacheNode(t, strings.Replace(edge, old, with, 1))
		return n.ID
	}
	for what, revision := range map[string]string{
		"the order of the disks": other(
			"{name: disk1, size: 10Gi}, {name: disk2, size: 10Gi}", "{name: disk2, size: 10Gi}, {name: disk1, size: 10Gi}"),
		"replicas":            other("spec:", "spec:\n  replicas: 7"),
		"the pod":             other("spec:", "spec:\n  pod: {image: x}"),
		"the rollout's width": other("spec:", "spec:\n  rollout: {maxUnavailable: 3}"),
	} {
		if revision != base.ID {
			t.Errorf("%s makes another revision, and a reload for nothing", what)
		}
	}
	revisions := []string{base.ID}
	for _, with := range []string{
		"hosts: [a.example.com]", "cache: {minUses: 2}", "monitoring: {requestSampling: 2}",
		"rollout: {workerShutdownTimeout: 1m}", "io: {asyncWrite: false}",
	} {
		revision := other("spec:", "spec:\n  "+with)
		if slices.Contains(revisions, revision) {
			t.Errorf("%s makes no revision of its own", with)
		}
		revisions = append(revisions, revision)
	}
	if !agentapi.IsWhole(text) {
		t.Error("revision as written is not whole")
	}
	for _, edited := range []string{
		strings.Replace(string(text), `"port":80`, `"port":81`, 1), "", "{}",
		strings.Replace(string(text), base.ID, "0123456789ab", 1),
	} {
		if agentapi.IsWhole([]byte(edited)) {
			t.Errorf("an edited revision is whole: %.60s", edited)
		}
	}
}
