package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/test/await"
)

// machine is the clock that determines whether a certificate is valid.
var machine clock.RealClock

const name = "edge.default.agent.cachenode.io"

// mount writes the keys of the Secret that a pod mounts.
func mount(t *testing.T, dir string, data map[string][]byte) {
	t.Helper()
	for _, key := range []string{naming.ServerCertificateKey, naming.ServerKeyKey, naming.AuthorityKey} {
		must(t, os.WriteFile(filepath.Join(dir, key), data[key], 0o600))
	}
}

func issue(t *testing.T, data map[string][]byte, name string, at time.Time) map[string][]byte {
	t.Helper()
	renewed, _, err := pki.Renew(data, name, at)
	must(t, err)
	return renewed
}

func TestReports(t *testing.T) {
	t.Parallel()
	now := machine.Now() // the TLS handshake uses the real clock
	dir := t.TempDir()
	first := issue(t, nil, name, now)
	mount(t, dir, first)
	want := agentapi.Report{
		AgentVersion: "v1", Revision: "abc", Since: now.UTC().Truncate(time.Second),
		Disks: []agentapi.DiskReport{{Name: "disk1", State: "Failed", Reason: "IOError", NeedsNewPod: true}},
	}
	told := make(chan agentapi.Addresses, 1)
	address := serve(t, Reports(func() agentapi.Report { return want }, nil,
		func(a agentapi.Addresses) { told <- a }), TLS(dir))
	ask := func(data map[string][]byte, name string) (agentapi.Report, error) {
		config, err := pki.Client(data, name)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
		defer cancel()
		return agentclient.New(config).Report(ctx, address)
	}

	t.Run("the operator reads it", func(t *testing.T) {
		got, err := ask(first, name)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("error %v (-want +got)\n%s", err, diff)
		}
	})
	t.Run("the operator tells where the pods are", func(t *testing.T) {
		config, err := pki.Client(first, name)
		must(t, err)
		want := agentapi.Addresses{Pods: map[string]netip.Addr{"edge-1": netip.MustParseAddr("10.0.0.1")}}
		must(t, agentclient.New(config).Tell(t.Context(), address, want))
		if diff := cmp.Diff(want, <-told, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		status := func(body string) int {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
				"https://"+address+agentapi.AddressesPath, strings.NewReader(body))
			must(t, err)
			response, err := client.Do(request)
			must(t, err)
			must(t, response.Body.Close())
			return response.StatusCode
		}
		for _, body := range []string{"", "{", `{"pods": {"edge-1": "nowhere"}}`, `{"pods": "` + strings.Repeat("x", 1<<20)} {
			if got := status(body); got != http.StatusBadRequest {
				t.Errorf("%.20q: status %d, want 400", body, got)
			}
		}
		if len(told) != 0 {
			t.Error("the agent takes addresses that are none")
		}
	})
	t.Run("a stranger does not", func(t *testing.T) {
		stranger := issue(t, nil, name, now)
		stranger[naming.AuthorityKey] = first[naming.AuthorityKey] // it trusts the agent, which does not trust it
		if _, err := ask(stranger, name); err == nil {
			t.Error("a stranger's certificate was taken")
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		if response, err := client.Get("https://" + address + agentapi.ReportPath); err == nil {
			_ = response.Body.Close()
			t.Error("no certificate was asked for")
		}
		if response, err := http.Get("http://" + address + agentapi.ReportPath); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				t.Error("plain text was answered")
			}
		}
	})
	t.Run("the operator does not believe another's agent", func(t *testing.T) {
		if _, err := ask(first, "other.default.agent.cachenode.io"); err == nil {
			t.Error("the agent of another CacheNode was believed")
		}
		if _, err := ask(issue(t, nil, name, now), name); err == nil {
			t.Error("an agent with an unknown authority was believed")
		}
	})
	t.Run("certificates rotate without a break", func(t *testing.T) {
		second := reissued(t, first)
		if _, err := ask(second, name); err != nil {
			t.Errorf("a new operator, an agent with old files: %v", err)
		}
		mount(t, dir, second)
		if _, err := ask(second, name); err != nil {
			t.Errorf("both new: %v", err)
		}
		if _, err := ask(first, name); err == nil {
			t.Error("an operator that never saw the new set should not know the new agent")
		}
	})
	t.Run("files that are missing", func(t *testing.T) {
		must(t, os.Remove(filepath.Join(dir, naming.AuthorityKey)))
		if _, err := ask(first, name); err == nil {
			t.Error("without an authority, everybody was let in")
		}
	})
}

// reissued returns a set of certificates and keys that replaces an old set, as if the old set was about to expire. The
// new set is valid now.
func reissued(t *testing.T, old map[string][]byte) map[string][]byte {
	t.Helper()
	damaged := maps.Clone(old)
	delete(damaged, naming.ServerKeyKey)
	return issue(t, damaged, name, machine.Now())
}

// caches simulates the caches of a pod. List returns an error for a target without URLs. Copy finds a copy of each
// object on disk1.
type caches struct{}

func (caches) Copy(_ context.Context, q objects.Lookup) (objects.Copy, error) {
	if q.Disk != "disk1" {
		return objects.Copy{}, errors.New("no such disk")
	}
	return objects.Copy{Bytes: 7}, nil
}

func (caches) List(_ context.Context, q objects.Query) (objects.Answer, error) {
	if len(q.Target.URLs) == 0 {
		return objects.Answer{}, errors.New("no URLs")
	}
	return objects.Answer{Stores: []objects.Store{{Name: q.Target.URLs[0]}}}, nil
}

func TestLocal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.sock")
	for range 2 { // the second server finds the socket of the first
		listener, err := ListenLocal(t.Context(), path)
		must(t, err)
		listener.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // it listens on a path
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- ServeOn(ctx, listener, Local(caches{}), nil, LocalLimits) }()
		client := http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			},
		}}
		for question, want := range map[[2]string]string{
			{objects.Path, `{"target":{"urls":["disk1"]}}`}: `200 ` +
				`{"stores":[{"name":"disk1","total":{"objects":0,"files":0,"bytes":0}}]}`,
			{objects.Path, `{"target":{}}`}:                    "422 no URLs",
			{objects.Path, `{"targets":{}}`}:                   `400 json: unknown field "targets"`,
			{objects.CopyPath, `{"key":"a","disk":"disk1"}`}:   `200 {"bytes":7}`,
			{objects.CopyPath, `{"key":"a","disk":"disk2"}`}:   "422 no such disk",
			{objects.CopyPath, `{"key":"a","slices":1048576}`}: `400 json: unknown field "slices"`,
		} {
			request, err := http.NewRequestWithContext(
				t.Context(), http.MethodPost, "http://agent"+question[0], strings.NewReader(question[1]))
			must(t, err)
			response, err := client.Do(request)
			must(t, err)
			text, err := io.ReadAll(response.Body)
			must(t, errors.Join(err, response.Body.Close()))
			if got := strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, text)); got != want {
				t.Errorf("%s: %s, want %s", question, got, want)
			}
		}
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("the socket has the mode %s", info.Mode())
		}
		stop()
		must(t, <-ended)
	}
}

func serve(t *testing.T, handler http.Handler, config *tls.Config) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ServeOn(ctx, listener, handler, config, PlainLimits) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	return listener.Addr().String()
}

func TestPlain(t *testing.T) {
	t.Parallel()
	started := false
	metrics := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "numbers") }
	handler := Plain(http.HandlerFunc(metrics),
		func() bool { return started }, func(context.Context) bool { return started })
	get := func(path string) int {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code
	}
	for _, path := range []string{"/started", "/ready"} {
		if got := get(path); got != http.StatusServiceUnavailable {
			t.Errorf("%s before there is a configuration: status %d", path, got)
		}
	}
	started = true
	for path, want := range map[string]int{
		"/started": 200, "/ready": 200, "/healthz": 200, "/metrics": 200, agentapi.ReportPath: 404,
	} {
		if got := get(path); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
