package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// purgesOverHTTP sends one purge request for each object to the HTTP endpoint, all at the same time. After the answers,
// no pod may serve the old objects.
func purgesOverHTTP(t *testing.T, s *suite) {
	enable := func(isOn bool) {
		helm(t, "upgrade", release, chart, "--reset-then-reuse-values", "--wait", "--timeout", "5m",
			"--set", fmt.Sprintf("purgeAPI.enabled=%t", isOn))
	}
	t.Cleanup(func() { enable(false) })
	enable(true)
	kubectl(t, "", "create", "serviceaccount", "publisher")
	kubectl(t, "", "create", "role", "publisher", "--verb=create", "--resource=cachepurges.cachenode.io")
	kubectl(t, "", "create", "rolebinding", "publisher", "--role=publisher", "--serviceaccount="+namespace+":publisher")
	token := strings.TrimSpace(kubectl(t, "", "create", "token", "publisher"))
	address := portForward(t, operatorNamespace, "service/"+release+"-purge-api", "443")

	for _, pod := range s.cachePods(t) {
		s.target(t, pod.Name).warm(t, versioned)
	}
	want := publish(t)
	names := postPurges(t, "https://"+address+"/v1/purges", token)
	if len(names) >= len(versioned) {
		t.Errorf("%d requests became %d CachePurges, want fewer", len(versioned), len(names))
	}
	for _, pod := range s.cachePods(t) {
		for _, r := range s.target(t, pod.Name).get(t, versioned) {
			if r.Error != "" || r.Version != want {
				t.Errorf("%s of %s has version %d (%s, %s), want %d", r.Path, pod.Name, r.Version, r.Cache, r.Error, want)
			}
		}
	}
}

// postPurges sends a purge request for each object. The result maps the name of each CachePurge to the number of
// requests that it was created for. When postPurges returns, all these CachePurges have been applied.
func postPurges(t *testing.T, url, token string) map[string]int {
	t.Helper()
	// The endpoint creates its own certificate when it starts. The test does not verify this certificate, because it tests
	// only purges.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	client := &http.Client{Timeout: 90 * time.Second, Transport: transport}
	names := map[string]int{}
	var mutex sync.Mutex
	var waiting sync.WaitGroup
	for _, path := range versioned {
		waiting.Go(func() {
			body := fmt.Sprintf(`{"namespace":%q,"cacheNode":%q,"urls":[%q],"timeoutSeconds":60}`,
				namespace, name, "http://"+name+path)
			request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer "+token)
			request.Header.Set("Content-Type", "application/json")
			response, err := client.Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = response.Body.Close() }()
			var answer struct{ Name, Phase, Message, Error string }
			// Status 202 means that the purge takes longer than the request may wait. This can happen on a busy machine.
			err = json.NewDecoder(response.Body).Decode(&answer)
			if err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
				t.Errorf("%s: status %d, %+v, error %v", path, response.StatusCode, answer, err)
			}
			mutex.Lock()
			defer mutex.Unlock()
			names[answer.Name]++
		})
	}
	waiting.Wait()
	for purge := range names {
		within(t, time.Minute, func() string {
			phase := kubectl(t, "", "get", "cachepurge", purge, "-o", "jsonpath={.status.phase}")
			if slices.Contains([]v1alpha1.PurgePhase{v1alpha1.PurgeApplied, v1alpha1.PurgeSettled}, v1alpha1.PurgePhase(phase)) {
				return ""
			}
			return fmt.Sprintf("%s is %s", purge, phase)
		})
	}
	return names
}
