package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// unseen contains the rights of the operator whose use does not appear in the API server's log. The value is the reason
// why the operator has the right.
var unseen = map[string]string{
	"update cachenodes/finalizers.cachenode.io": "no call: admission asks for it " +
		"where an owner reference blocks the owner's deletion (OwnerReferencesPermissionEnforcement)",
	"patch events.events.k8s.io": "an event that comes again within minutes becomes a series; " +
		"the operator sends each event once, so a run may have no series",
	"patch secrets":                     "certificates are renewed after 60 days: TestRenewal",
	"get storageclasses.storage.k8s.io": "a claim grows whose class is not in the cache yet",
	"patch storageclasses.storage.k8s.io": "somebody has edited the operator's class, " +
		"or an operator of before has made it otherwise",
}

// TestRights compares the operator's role with the requests that the operator sent during all earlier tests. It fails
// if the role contains a right that no request used. It must be the last test (see test/e2e/all). It reads the logs of
// clusters whose API servers log requests.
func TestRights(t *testing.T) {
	nativeOnly(t)
	allowed := map[string]bool{}
	text, err := os.ReadFile("../../config/rbac/role.yaml")
	must(t, err)
	role := rbacv1.ClusterRole{}
	must(t, yaml.UnmarshalStrict(text, &role))
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					allowed[call(verb, resource, group)] = true
				}
			}
		}
	}
	used, refused := calls(t)
	var unused []string
	for right := range allowed {
		// If the API server supports it (Kubernetes 1.34), a watch first streams the existing objects, without a list.
		streamed := strings.HasPrefix(right, "list ") && used["watch "+strings.TrimPrefix(right, "list ")]
		if !used[right] && !streamed && unseen[right] == "" {
			unused = append(unused, right)
		}
	}
	slices.Sort(unused)
	for _, right := range unused {
		t.Errorf("nothing has used the right to %s", right)
	}
	for right := range unseen {
		if !allowed[right] {
			t.Errorf("%s is an exception, and the role does not have it", right)
		}
	}
	// TestChart removes rights while the operator runs, including the rights for leader election.
	election := []string{"get", "create", "update"}
	for what := range refused {
		verb, resource, _ := strings.Cut(what, " ")
		elects := resource == "leases.coordination.k8s.io" && slices.Contains(election, verb) || what == "create events"
		if !allowed[what] && !elects {
			t.Errorf("the operator asks for what its role does not allow: %s", what)
		}
	}
	if len(used) < 20 {
		t.Errorf("the log shows %d different calls, want those of all tests", len(used))
	}
}

// call returns a request in the terms of a role: its verb and resource, without the object's name.
func call(verb, resource, group string) string {
	return strings.TrimSuffix(verb+" "+resource+"."+group, ".")
}

// calls returns the operator's requests from the audit logs in the folders that CACHENODE_TEST_AUDIT lists. If the
// variable is empty, calls reads the log of the cluster's own API server. used contains the authorized requests, and
// refused contains the others.
func calls(t *testing.T) (used, refused map[string]bool) {
	t.Helper()
	used, refused = map[string]bool{}, map[string]bool{}
	folders := filepath.SplitList(os.Getenv("CACHENODE_TEST_AUDIT"))
	if len(folders) == 0 {
		folders = []string{filepath.Join(filepath.Dir(filepath.Dir(cluster(t, "kubeconfig"))), "logs")}
	}
	var logs []string
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, "audit*.log"))
		must(t, err)
		logs = append(logs, found...)
	}
	for _, path := range logs {
		file, err := os.Open(path)
		must(t, err)
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var event struct {
				Verb      string `json:"verb"`
				ObjectRef struct {
					Resource, Subresource, APIGroup string
				} `json:"objectRef"`
				Annotations map[string]string `json:"annotations"`
			}
			must(t, json.Unmarshal(lines.Bytes(), &event))
			resource := event.ObjectRef.Resource
			if event.ObjectRef.Subresource != "" {
				resource += "/" + event.ObjectRef.Subresource
			}
			what := call(event.Verb, resource, event.ObjectRef.APIGroup)
			if event.Annotations["authorization.k8s.io/decision"] == "forbid" {
				refused[what] = true
				continue
			}
			used[what] = true
		}
		must(t, lines.Err())
		must(t, file.Close())
	}
	return used, refused
}
