package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/routes"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/test/await"
	"github.com/cachenode/cachenode-operator/test/steps"
	"github.com/cachenode/cachenode-operator/test/xfs"
)

// edge is a CacheNode whose disks do not count as slow, even on a busy machine.
const edge = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks:
  - {name: disk1, size: 512Mi, health: {timeout: 1m}}
  - {name: disk2, size: 512Mi, health: {timeout: 1m}}
  origin: {servers: [{host: 127.0.0.1, port: 9000}], fallbackConcurrency: 1}
  cache: {key: [RequestURI, Host]}
  logs: {level: Notice}
  monitoring: {requestSampling: 100}
`

// pod is the environment of an agent in a pod: real nginx, two real disks, and the files that a kubelet would write.
type pod struct {
	t     *testing.T // the subtest that is running
	whole *testing.T
	nginx *nginxtest.Nginx
	paths Paths
	agent *Agent
	stop  context.CancelFunc
}

func newPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{t: t, whole: t, nginx: nginxtest.New(t)}
	for _, disk := range []string{"disk1", "disk2"} {
		xfs.Mount(t, p.nginx.Root+layout.DiskDir(disk))
		p.nginx.Disk(disk)
	}
	p.paths = Paths{
		Config: t.TempDir(), PodInfo: t.TempDir(), Listener: t.TempDir(),
		Certificates: t.TempDir(), ResolvConf: filepath.Join(t.TempDir(), "resolv.conf"), Root: p.nginx.Root,
	}
	p.write(p.paths.ResolvConf, "nameserver 127.0.0.1\n")
	p.write(filepath.Join(p.paths.PodInfo, layout.CPULimitFile), "2000")
	p.write(filepath.Join(p.paths.PodInfo, layout.MemoryLimitFile), "1073741824")
	p.annotate("")
	return p
}

func (p *pod) write(path, text string) {
	p.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pod) annotate(revision string) {
	p.t.Helper()
	text := fmt.Sprintf("%s=%q\n", naming.AnnotationRevision, revision)
	p.write(filepath.Join(p.paths.PodInfo, layout.AnnotationsFile), text)
}

// offer writes a revision under a key of the ConfigMap and returns its ID.
func (p *pod) offer(key string, change func(*v1alpha1.CacheNodeSpec)) string {
	p.t.Helper()
	return p.offerRoutes(key, change, routes.Table{})
}

// offerRoutes does the same as offer, for a revision with routes of Gateways.
func (p *pod) offerRoutes(key string, change func(*v1alpha1.CacheNodeSpec), table routes.Table) string {
	p.t.Helper()
	cacheNode, errs, err := schema.Decode([]byte(edge))
	if err != nil || len(errs) > 0 {
		p.t.Fatal(err, errs)
	}
	if change != nil {
		change(&cacheNode.Spec)
	}
	n, err := revision.Of(effective.CacheNode{CacheNode: cacheNode}, revision.Outside{
		ClusterDomain: "cluster.local", Routes: table,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := json.Marshal(n)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(filepath.Join(p.paths.Config, key), string(text))
	return n.ID
}

// start runs an agent as cmd/agent does, without its servers.
func (p *pod) start() {
	p.t.Helper()
	client := p.nginx.Client()
	client.Transport.(*http.Transport).DisableKeepAlives = true
	p.agent = New(p.paths, &reload.Nginx{
		Program: p.nginx.Program(), Root: p.nginx.Root, URL: fmt.Sprintf("http://127.0.0.1:%d", layout.PrivatePort),
		Client: client, TestTimeout: await.Patience, TakeTimeout: await.Patience,
	}, slog.New(slog.NewTextHandler(p.whole.Output(), nil)), "test", clock.RealClock{})
	p.agent.startPatience = await.Patience // even on a busy machine, nginx starts with its disks
	socket := p.nginx.Agent()
	watcher, err := p.agent.watchFiles()
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { p.agent.Run(ctx) })
	group.Go(func() { nginxlog.Serve(ctx, socket, p.agent) })
	group.Go(func() { _ = p.agent.follow(ctx, watcher) })
	stopped := p.agent
	p.stop = func() {
		cancel()
		group.Wait()
		stopped.background.Wait()
		stopped.purger.Ended()
	}
	p.whole.Cleanup(p.stop)
	p.eventually("the agent has a configuration for nginx", p.agent.Started)
}

// eventually waits until is() returns true. The parameter what describes the expected state.
func (p *pod) eventually(what string, is func() bool) {
	p.t.Helper()
	await.Until(p.t, func() string {
		if is() {
			return ""
		}
		return fmt.Sprintf("%s: not so; the report is %+v", what, p.agent.Report())
	})
}

// looks waits until the agent has made a whole step that began after this call. The channel wake has room for one
// message. So when the third message has been sent, the step that the first message caused has ended.
func (p *pod) looks() {
	p.t.Helper()
	for range 3 {
		p.eventually("the agent makes a step", func() bool {
			select {
			case p.agent.wake <- struct{}{}:
				return true
			default:
				return false
			}
		})
	}
}

// get requests a path from nginx.
func (p *pod) get(path string) (status int, cache string, header http.Header) {
	p.t.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := p.nginx.Client().Do(request)
	if err != nil {
		p.t.Error(err)
		return 0, "", nil
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header.Get("X-Cache"), response.Header
}

func (p *pod) hangups() int { return strings.Count(p.nginx.Log(), "signal 1 (SIGHUP) received") }

// counted returns two kinds of numbers from the metrics: the number of requests by disk and cache status, and the
// number of measured first bytes by disk.
func (p *pod) counted() map[string]float64 {
	p.t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(p.metrics()))
	if err != nil {
		p.t.Fatal(err)
	}
	label := func(m *dto.Metric, name string) string {
		for _, l := range m.GetLabel() {
			if l.GetName() == name {
				return l.GetValue()
			}
		}
		return ""
	}
	counted := map[string]float64{}
	for _, m := range families["cachenode_requests_total"].GetMetric() {
		if n := m.GetCounter().GetValue(); n > 0 {
			counted[label(m, "disk")+" "+label(m, "cache")] += n
		}
	}
	for _, m := range families["cachenode_first_byte_seconds"].GetMetric() {
		if n := m.GetHistogram().GetSampleCount(); n > 0 {
			counted[label(m, "disk")+" first bytes"] += float64(n)
		}
	}
	return counted
}

func TestAgent(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	stable := p.offer(naming.StableKey, nil)
	var slow atomic.Bool
	rejected := make(chan struct{}) // is closed when all requests that nginx must reject have been rejected
	p.nginx.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			select {
			case <-rejected:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "origin")
	}))
	p.start()
	p.nginx.Start()
	runs := func(revision string) func() bool {
		return func() bool { return p.agent.Report().Revision == revision }
	}
	p.eventually("nginx runs stable", runs(stable))
	if r := p.agent.Report(); r.Renderer != agentapi.Renderer || r.NginxVersion == "" ||
		agentapi.IsOldNginx(r.NginxVersion) {
		t.Errorf("the report has renderer %d and nginx %q", r.Renderer, r.NginxVersion)
	} else if slices.Contains(r.Features, agentapi.FeatureNoScripts) {
		t.Errorf("the report says that nginx lacks its module for scripts: %q", r.Features)
	}

	steps.Run(t, "the candidate, when the annotation names it", func() {
		candidate := p.offer(naming.CandidateKey, func(s *v1alpha1.CacheNodeSpec) { s.Cache.MinUses = new(int32(2)) })
		p.looks()
		if got := p.agent.Report().Revision; got != stable {
			t.Errorf("nginx runs %s, which no annotation names", got)
		}
		p.annotate(candidate)
		p.eventually("nginx runs the candidate", runs(candidate))
		p.annotate(stable)
		p.eventually("nginx runs stable again", runs(stable))
	})

	steps.Run(t, "the annotation comes before the ConfigMap", func() {
		change := func(s *v1alpha1.CacheNodeSpec) { s.Cache.MinUses = new(int32(3)) }
		revision := p.offer("later.json", change)
		p.annotate(revision)
		p.looks()
		p.offer(naming.CandidateKey, change)
		p.eventually("nginx runs the candidate", runs(revision))
		p.annotate(stable)
		p.eventually("nginx runs stable again", runs(stable))
	})

	steps.Run(t, "what nginx refuses is reported, and what runs goes on", func() {
		hangups := p.hangups()
		bad := p.offer(naming.CandidateKey, func(s *v1alpha1.CacheNodeSpec) {
			s.IO.SendfileMaxChunk, s.Logs.Level = nil, "Loud"
		})
		p.annotate(bad)
		p.eventually("the refusal is reported", func() bool {
			r := p.agent.Report().Refusal
			return r != nil && r.Revision == bad && strings.Contains(r.Message, `invalid log level ""`)
		})
		status, _, _ := p.get("/x")
		if status != http.StatusOK || p.agent.Report().Revision != stable || p.hangups() != hangups {
			t.Errorf("status %d, report %+v", status, p.agent.Report())
		}
		p.looks()
		if !strings.Contains(p.metrics(), `cachenode_reloads_total{result="refused"} 1`+"\n") {
			t.Error("a refused revision is tried again and again")
		}
		p.annotate(stable)
		p.eventually("nginx runs stable", runs(stable))
	})

	steps.Run(t, "the routes that nginx refuses are found", func() {
		table := routes.Table{Listeners: []routes.Listener{{Gateway: "edge/main", Name: "http", Port: 80, PodPort: 20000}}}
		for i := range 5 {
			host := "127.0.0.1"
			if i == 3 {
				host = "[::" // no check lets this through; it stands for a mistake in the checks
			}
			r := routes.Route{Namespace: "team", Name: fmt.Sprint("route-", i), Site: fmt.Sprint("0.0.route-", i)}
			r.Rules = []routes.Rule{{
				Matches:  []routes.Match{{Path: routes.Path{Value: fmt.Sprint("/", i)}}},
				Backends: []routes.Backend{{Name: fmt.Sprint(i), Host: host, Port: 80, Weight: 1}},
			}}
			table.Routes = append(table.Routes, r)
			table.Listeners[0].Attached = append(table.Listeners[0].Attached,
				routes.Attachment{Route: r.ID(), Hosts: []routes.Host{"www.example.com"}})
		}
		bad := p.offerRoutes(naming.CandidateKey, nil, table)
		p.annotate(bad)
		p.eventually("the refused route is reported", func() bool {
			r := p.agent.Report().Refusal
			return r != nil && r.Revision == bad && slices.Equal(r.Routes, []string{"team/route-3"})
		})
		p.annotate(stable)
		p.eventually("nginx runs stable", runs(stable))
	})

	steps.Run(t, "a revision waits for its certificate", func() {
		waiting := p.offerRoutes(naming.CandidateKey, nil, routes.Table{Listeners: []routes.Listener{{
			Gateway: "edge/main", Name: "https", Port: 443, PodPort: 20000, Certificate: "shop",
		}}})
		p.annotate(waiting)
		p.eventually("the agent says what is missing", func() bool {
			return strings.Contains(p.agent.Report().Problem, "the certificate shop of a Gateway")
		})
		if r := p.agent.Report(); r.Revision != stable || r.Refusal != nil {
			t.Errorf("the report is %+v", r)
		}
		p.write(filepath.Join(p.paths.Certificates, "shop"), pemFile(t))
		p.eventually("nginx runs the revision", runs(waiting))
		p.annotate(stable)
		p.eventually("nginx runs stable", runs(stable))
	})

	steps.Run(t, "an agent that comes back changes nothing", func() {
		hangups := p.hangups()
		p.stop()
		if status, _, _ := p.get("/x"); status != http.StatusOK {
			t.Errorf("without an agent: status %d", status)
		}
		p.start()
		p.eventually("the new agent reports", runs(stable))
		if got := p.hangups(); got != hangups {
			t.Errorf("%d reloads", got-hangups)
		}
	})

	steps.Run(t, "a certificate for clients, and another", func() {
		shown := func() string {
			address := "127.0.0.1:8443"
			connection, err := p.nginx.Client().Transport.(*http.Transport).DialContext(t.Context(), "tcp", address)
			if err != nil {
				return ""
			}
			defer func() { _ = connection.Close() }()
			secure := tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
			if secure.Handshake() != nil {
				return ""
			}
			return secure.ConnectionState().PeerCertificates[0].DNSNames[0]
		}
		put := func(name string) {
			certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			p.write(filepath.Join(p.paths.Listener, "tls.key"), string(key))
			p.write(filepath.Join(p.paths.Listener, "tls.crt"), string(certificate))
		}
		put("first.example.com")
		revision := p.offer(naming.CandidateKey, func(s *v1alpha1.CacheNodeSpec) {
			s.Listen.TLS = &v1alpha1.ListenTLS{SecretName: "edge-tls", Port: new(int32(8443))}
		})
		p.annotate(revision)
		p.eventually("clients see it", func() bool { return shown() == "first.example.com" })
		put("second.example.com")
		p.eventually("clients see the other", func() bool { return shown() == "second.example.com" })
		p.write(filepath.Join(p.paths.Listener, "tls.crt"), "damaged")
		p.looks()
		if got := shown(); got != "second.example.com" {
			t.Errorf("with a damaged one they see %q", got)
		}
		put("third.example.com")
		p.eventually("clients see the third", func() bool { return shown() == "third.example.com" })
		p.eventually("the old keys are gone", func() bool {
			keys, err := filepath.Glob(p.nginx.Root + layout.ListenerKey("*"))
			return err == nil && len(keys) == 1
		})
		p.annotate(stable)
		p.eventually("nginx runs stable", runs(stable))
	})

	steps.Run(t, "requests are counted", func() {
		before := p.counted()
		disk := ""
		for range 3 {
			_, _, header := p.get("/counted")
			disk = header.Get("X-Cache-Disk")
		}
		want := maps.Clone(before)
		want[disk+" MISS"]++
		want[disk+" HIT"] += 2
		want[disk+" first bytes"] += 3
		p.eventually("one MISS and two HITs are counted", func() bool { return cmp.Equal(want, p.counted()) })
	})

	steps.Run(t, "disks that are older than the journal of purges serve nothing of what they have", func() {
		cached := func() map[string]int {
			n := map[string]int{}
			for i := range 20 {
				_, cache, _ := p.get(fmt.Sprintf("/older/%d", i))
				n[cache]++
			}
			return n
		}
		cached()
		if diff := cmp.Diff(map[string]int{"HIT": 20}, cached()); diff != "" {
			t.Fatalf("before (-want +got):\n%s", diff)
		}
		place := p.agent.clock.Now().UnixMilli()
		if err := p.agent.purger.Receive(purge.Update{Floor: place, Head: place}); err != nil {
			t.Fatal(err)
		}
		p.eventually("nginx has taken the new generations of both disks", func() bool {
			disks := p.agent.Report().Disks // a disk may be out of use for a moment
			return p.agent.purger.Done(0).Applied == place && disks[0].Share == 5000 && disks[1].Share == 5000
		})
		if diff := cmp.Diff(map[string]int{"MISS": 20}, cached()); diff != "" {
			t.Errorf("after (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{"HIT": 20}, cached()); diff != "" {
			t.Errorf("with a cache again (-want +got):\n%s", diff)
		}
	})

	steps.Run(t, "a disk that dies leaves the configuration", func() {
		xfs.Shutdown(t, p.nginx.Root+layout.DiskDir("disk1"))
		p.eventually("disk1 has no share", func() bool {
			r := p.agent.Report()
			return r.Disks[0].State == "Failed" && r.Disks[0].NeedsNewPod && r.Disks[0].Share == 0 && r.Disks[1].Share == 10000
		})
		for i := range 40 {
			status, cache, header := p.get(fmt.Sprintf("/after/%d", i))
			if status != http.StatusOK || cache != "MISS" || header.Get("X-Cache-Disk") != "disk2" {
				t.Errorf("%d %s on %s", status, cache, header.Get("X-Cache-Disk"))
			}
		}
	})

	steps.Run(t, "without a disk the origin serves, only so many at once", func() {
		xfs.Shutdown(t, p.nginx.Root+layout.DiskDir("disk2"))
		p.eventually("nothing is cached", func() bool { _, cache, _ := p.get("/uncached"); return cache == "UNCACHED" })
		slow.Store(true)
		var group sync.WaitGroup
		var served, rejections atomic.Int32
		for range 5 {
			group.Go(func() {
				switch status, _, header := p.get("/slow"); {
				case status == http.StatusOK:
					served.Add(1)
				case status == http.StatusServiceUnavailable && header.Get("Retry-After") == "1":
					if rejections.Add(1) == 4 {
						close(rejected)
					}
				default:
					t.Errorf("status %d, Retry-After %q", status, header.Get("Retry-After"))
				}
			})
		}
		group.Wait()
		if served.Load() != 1 || rejections.Load() != 4 {
			t.Errorf("%d were served and %d rejected, want 1 and 4", served.Load(), rejections.Load())
		}
		p.eventually("four are counted", func() bool {
			return strings.Contains(p.metrics(), "\ncachenode_uncached_rejected_total 4\n")
		})
	})
}

// metrics returns the text that Prometheus would read.
func (p *pod) metrics() string {
	recorder := httptest.NewRecorder()
	p.agent.Metrics().Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return recorder.Body.String()
}

// TestProblemsDoNotFlap checks that each report shows the problem while nginx -t takes too long.
func TestProblemsDoNotFlap(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.offer(naming.StableKey, nil)
	nginx := &reload.Nginx{
		Program: p.nginx.Program(), Root: p.nginx.Root, Client: p.nginx.Client(), TestTimeout: time.Nanosecond,
	}
	a := New(p.paths, nginx, slog.New(slog.DiscardHandler), "test", clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		a.background.Wait()
		a.purger.Ended()
	})
	c, done := &conductor{Agent: a}, make(chan struct{})
	go func() {
		defer close(done)
		for a.Report().Problem == "" {
			c.step(ctx)
		}
		for range 20 {
			c.step(ctx)
		}
	}()
	seen := ""
	for {
		select {
		case <-done:
			if !strings.Contains(seen, "nginx -t takes longer than 1ns") {
				t.Errorf("the report says %q", seen)
			}
			return
		default:
			if problem := a.Report().Problem; problem != "" {
				seen = problem
			} else if seen != "" {
				t.Fatalf("after %q, the report says nothing", seen)
			}
		}
	}
}
