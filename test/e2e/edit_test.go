package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/cert"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// edit patches the CacheNode as a user would. The error contains the API server's answer.
func edit(patch string) error {
	_, err := tryKubectl("", "patch", "cachenode", name, "--type=merge", "--patch", patch)
	return err
}

// edits contains an edit for each class of fields (see docs/concepts/changes.md), in the order in which they are made.
// newPods is true if the edit must replace the pods.
var edits = []struct {
	class, patch string
	newPods      bool
	want         []string // parts of the configuration after the edit
}{
	{
		"what nginx reloads", `{"spec":{"disks":[
		  {"name":"disk1","size":"1Gi","storageClassName":"local-disks","threadPool":{"threads":7,"maxQueue":43210}},
		  {"name":"disk2","size":"1Gi","storageClassName":"local-disks"},
		  {"name":"disk3","size":"1Gi","storageClassName":"local-disks"}],
		  "cache":{"valid":[{"status":[200],"for":"2h"}]}}}`, false,
		[]string{"thread_pool pool_disk1 threads=7 max_queue=43210;", "proxy_cache_valid 200 7200s;"},
	},
	{
		"what changes another object",
		`{"spec":{"service":{"annotations":{"example.com/a":"b"}},"disruption":{"maxUnavailable":2}}}`, false, nil,
	},
	{
		"what only the operator reads",
		`{"spec":{"rollout":{"canary":{"seconds":1},"maxUnavailable":"100%"}}}`, false, nil,
	},
	{
		"what needs new pods", `{"spec":{"disks":[
		  {"name":"disk1","size":"1Gi","storageClassName":"local-disks","cache":{"keysZone":"9Mi"}},
		  {"name":"disk2","size":"1Gi","storageClassName":"local-disks"},
		  {"name":"disk3","size":"1Gi","storageClassName":"local-disks"}]}}`, true,
		[]string{"keys_zone=cache_disk1:9m"},
	},
	{
		"how long objects are served stale, and what counts in a URL", `{"spec":{"cache":{
		  "staleWhileRevalidate":"10s","staleIfError":"1h",
		  "query":{"drop":["utm_*"]},"bypass":{"cookies":["session"],"headers":["X-Preview"]}}}}`, false,
		[]string{"stale-while-revalidate=10, stale-if-error=3600", "$http_cookie $bypass_cookie", "$counted_query"},
	},
	{"slices", `{"spec":{"cache":{"slice":{"size":"1Mi"}}}}`, false, []string{"slice 1m;"}},
	{
		"headers, compression and logs", `{"spec":{
		  "headers":{"request":{"set":[{"name":"X-Edge","value":"a"}]},"response":{"remove":["X-Powered-By"]}},
		  "listen":{"gzip":{"enabled":true}},"logs":{"access":"Stdout","format":"JSON"}}}`, false,
		[]string{"proxy_set_header X-Edge a;", "proxy_hide_header X-Powered-By;", "gzip on;", "/dev/stdout cachenode_json;"},
	},
	{
		"the clients' addresses",
		`{"spec":{"listen":{"clientAddress":{"source":"XForwardedFor","trustedCIDRs":["10.0.0.0/8"]}}}}`, false,
		[]string{"set_real_ip_from 10.0.0.0/8;"},
	},
	{
		"all of these back", `{"spec":{"cache":{"query":null,"bypass":null,"slice":null},"headers":null,
		  "listen":{"gzip":null,"clientAddress":null},"logs":null}}`, false, nil,
	},
	{"a listener for TLS", `{"spec":{"listen":{"tls":{"secretName":"listener"}}}}`, true, []string{"http2 on;"}},
	{
		"the versions of HTTP", `{"spec":{"listen":{"tls":{"http2":false,"http3":true}}}}`, false,
		[]string{"listen 8443 default_server quic reuseport;"},
	},
}

// editsUnderLoad makes an edit of each class while clients that never retry fetch objects.
func editsUnderLoad(t *testing.T, s *suite) {
	createListenerSecret(t)
	s.cache(t, objects[:150])
	for _, e := range edits {
		class := e.class
		before := uids(s.cachePods(t))
		load := s.load(t, objects[:150])
		begun := time.Now()
		must(t, edit(e.patch))
		cacheNode := s.current(t)
		took := time.Since(begun)
		checkLoad(t, load.more(t, 300).end())
		t.Logf("%s: all pods are as the spec asks %s after the edit", class, took.Round(100*time.Millisecond))
		for pod, id := range uids(s.cachePods(t)) {
			if got := before[pod] != id; got != e.newPods {
				t.Errorf("%s: %s was restarted: %t", class, pod, got)
			}
			config := inNginx(t, pod, "cat", layout.ConfigFile)
			for _, want := range e.want {
				if !strings.Contains(config, want) {
					t.Errorf("%s: %s: %q is not in the configuration", class, pod, want)
				}
			}
			version, revision := kubectl(t, "", "get", "--raw", versionPath(pod)), cacheNode.Status.ConfigRevision
			if !strings.HasPrefix(version, revision+"-") {
				t.Errorf("%s: %s answers with version %q, want revision %s", class, pod, version, revision)
			}
		}
	}
}

// createListenerSecret creates the Secret with the certificate for listen.tls.
func createListenerSecret(t *testing.T) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("edge.example.com", nil, nil)
	must(t, err)
	encode := base64.StdEncoding.EncodeToString
	apply := fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: listener}, type: kubernetes.io/tls, "+
		"data: {tls.crt: %s, tls.key: %s}}", encode(certificate), encode(key))
	kubectl(t, apply, "apply", "-f", "-")
}

// refusesBadEdits makes edits that must not take effect. The API server refuses some of them, and the operator reports
// the others as not accepted in a condition. The pods continue to serve during all of them.
func refusesBadEdits(t *testing.T, s *suite) {
	disks := func(first string) string {
		return `{"spec":{"disks":[` + first +
			`,{"name":"disk2","size":"1Gi","storageClassName":"local-disks"}` +
			`,{"name":"disk3","size":"1Gi","storageClassName":"local-disks"}]}}`
	}
	host := func(host string) string { return fmt.Sprintf(`{"spec":{"origin":{"servers":[{"host":%s}]}}}`, host) }
	atAdmission := map[string]struct{ patch, want string }{
		"overlapping disk names":   {disks(`{"name":"disk2","size":"1Gi"}`), "spec.disks[1]"},
		"a name that would be one": {disks(`{"name":"disk_1","size":"1Gi"}`), "spec.disks[0].name"},
		"weight 0": {
			disks(`{"name":"disk1","size":"1Gi","storageClassName":"local-disks","weight":0}`),
			"spec.disks[0].weight",
		},
		"a size that is none": {
			disks(`{"name":"disk1","size":"large","storageClassName":"local-disks"}`),
			"spec.disks[0].size",
		},
		"an unknown variable":  {host(`"$nonsense.example.com"`), "spec.origin.servers[0].host"},
		"a quote":              {host(`"a\".example.com"`), "spec.origin.servers[0].host"},
		"a newline":            {host(`"a.example.com\n"`), "spec.origin.servers[0].host"},
		"a semicolon":          {host(`"a.example.com;"`), "spec.origin.servers[0].host"},
		"a brace":              {host(`"a{.example.com"`), "spec.origin.servers[0].host"},
		"a brace in Host":      {`{"spec":{"origin":{"hostHeader":"a{b"}}}`, "spec.origin.hostHeader"},
		"a semicolon in hosts": {`{"spec":{"hosts":["a;b"]}}`, "spec.hosts"},
	}
	byOperator := map[string]struct{ patch, undo, reason, want string }{
		"a missing Secret": {
			`{"spec":{"origin":{"scheme":"https","tls":{"serverName":"origin","caBundle":{"secret":{"name":"nowhere"}}}}}}`,
			`{"spec":{"origin":{"scheme":"http","tls":null}}}`,
			v1alpha1.ReasonReferenceNotFound, `Secret "nowhere"`,
		},
		"a keys zone larger than memory": {
			`{"spec":{"pod":{"resources":{"limits":{"memory":"20Mi"}}}}}`,
			`{"spec":{"pod":{"resources":null}}}`,
			v1alpha1.ReasonInvalidSpec, "do not fit into the memory limit 20Mi",
		},
	}
	before := uids(s.cachePods(t))
	load := s.load(t, objects[:150])
	for what, tt := range atAdmission {
		if err := edit(tt.patch); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", what, err, tt.want)
		}
	}
	for what, tt := range byOperator {
		must(t, edit(tt.patch))
		if got := s.notAccepted(t, tt.reason); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %q", what, got, tt.want)
		}
		must(t, edit(tt.undo))
		s.current(t)
	}
	checkLoad(t, load.more(t, 300).end())
	after := uids(s.cachePods(t))
	for pod, id := range before {
		if after[pod] != id {
			t.Errorf("%s was restarted", pod)
		}
	}
}

// notAccepted waits until the condition Accepted is False with the given reason, and returns its message.
func (s *suite) notAccepted(t *testing.T, reason string) string {
	t.Helper()
	var message string
	within(t, 30*time.Second, func() string {
		c := meta.FindStatusCondition(s.cacheNode(t).Status.Conditions, v1alpha1.ConditionAccepted)
		if c == nil || c.Status != "False" || c.Reason != reason {
			return fmt.Sprintf("Accepted is %+v, want False for %s", c, reason)
		}
		message = c.Message
		return ""
	})
	return message
}
