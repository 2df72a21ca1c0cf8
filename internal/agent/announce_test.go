package agent

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// toBackends returns a table with a route to each backend.
func toBackends(hosts ...string) (t routes.Table) {
	for _, host := range hosts {
		t.Routes = append(t.Routes, routes.Route{Namespace: "team", Name: host, Site: "1.1." + host, Rules: []routes.Rule{{
			Matches:  []routes.Match{{Path: routes.Path{Value: "/"}}},
			Backends: []routes.Backend{{Name: host, Host: host, Port: 80, Weight: 1}},
		}}})
	}
	return t
}

// TestAnnounce checks that a pod is not ready while nginx has no answer for the name of its origin, and that an edit
// with a new backend waits until nginx has an answer for the name of the backend: until then, nginx runs the earlier
// revision with the new upstream. An edit with a new action for the same backend does not wait, but takes two reloads
// too.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	const server = "127.77.0.1" // on loopback, where no other test has a name server
	p.write(p.paths.ResolvConf, "nameserver "+server+"\n")
	var headers routes.HeaderChanges
	offer := func(hosts ...string) string {
		table := toBackends(hosts...)
		for i := range table.Routes {
			table.Routes[i].Rules[0].Headers = headers
		}
		l := routes.Listener{Gateway: "team/main", Name: "http", Port: 80, PodPort: 20000}
		for _, r := range table.Routes {
			l.Attached = append(l.Attached, routes.Attachment{Route: r.ID(), Hosts: []routes.Host{"a.example.com"}})
		}
		table.Listeners = []routes.Listener{l}
		return p.offerRoutes(naming.StableKey, func(s *v1alpha1.CacheNodeSpec) {
			s.Origin.Servers = []v1alpha1.OriginServer{{Host: new("origin.example.com")}}
		}, table)
	}
	first := offer()
	p.start()
	p.agent.namesPatience = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	udp, tcp := p.nginx.ListenPacket(layout.ResolverAddress), p.nginx.Listen(layout.ResolverAddress)
	go func() { ended <- p.agent.serveNames(ctx, udp, tcp) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	p.nginx.Start()
	p.eventually("nginx runs the revision", func() bool { return p.agent.Report().Revision == first })
	if !p.agent.answersHealth(t.Context()) || p.agent.Ready(t.Context()) {
		t.Error("it is ready before nginx has an answer for the name of its origin")
	}
	stop := p.serveNames(server)
	p.eventually("it is ready", func() bool { return p.agent.Ready(t.Context()) })

	stop()
	reloads := p.hangups()
	second := offer("new.example.com")
	p.eventually("nginx has the new upstream", func() bool { return p.hangups() == reloads+1 })
	p.looks()
	if got := p.agent.Report().Revision; got != first {
		t.Errorf("nginx runs %s before it has an answer for the new backend, want %s", got, first)
	}
	p.serveNames(server)
	p.eventually("nginx runs the new revision", func() bool { return p.agent.Report().Revision == second })
	if !p.agent.Ready(t.Context()) {
		t.Error("it is not ready after that")
	}
	if got := p.hangups() - reloads; got != 2 {
		t.Errorf("nginx was reloaded %d times, want 2", got)
	}

	headers.Remove = []string{"X-A"} // another action for the same backend
	third := offer("new.example.com")
	p.eventually("nginx runs the third revision", func() bool { return p.agent.Report().Revision == third })
	if got := p.hangups() - reloads; got != 4 {
		t.Errorf("after an edit of headers, nginx was reloaded %d times, want 4", got)
	}
}

// serveNames runs a name server until stop is called or the test ends. Its answers contain only an address at which no
// origin may be.
func (p *pod) serveNames(address string) (stop func()) {
	p.t.Helper()
	socket, err := net.ListenPacket("udp", address+":53")
	if err != nil {
		p.t.Fatal(err)
	}
	server := &dns.Server{PacketConn: socket, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		answer := (&dns.Msg{}).SetReply(question)
		answer.RecursionAvailable = true
		answer.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: question.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1},
			A:   net.IPv4(127, 0, 0, 2),
		}}
		_ = w.WriteMsg(answer)
	})}
	go func() { _ = server.ActivateAndServe() }()
	stop = sync.OnceFunc(func() { _ = socket.Close() })
	p.whole.Cleanup(stop)
	return stop
}

// TestFormer checks which actions a configuration has in addition to those of its own routes: those of earlier
// revisions, until their workers have ended, and those of the next revision.
func TestFormer(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	f := former{}
	beside := func(table, more routes.Table, minutes int) (hosts []string) {
		actions, _ := f.beside(table, more, at(minutes))
		for _, a := range actions {
			hosts = append(hosts, a.Backend.Host)
		}
		slices.Sort(hosts)
		return hosts
	}
	none := routes.Table{}
	check := func(what string, got []string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
	check("at first", beside(toBackends("a"), none, 0))
	check("announced", beside(toBackends("a"), toBackends("a", "b"), 0), "b")
	f.add(toBackends("a", "b"), toBackends("b", "c"), at(0), at(10))
	check("after an edit", beside(toBackends("b", "c"), none, 1), "a")
	f.add(toBackends("b", "c"), toBackends("b", "c"), at(2), at(12)) // the same revision with other facts
	check("the same routes", beside(toBackends("b", "c"), none, 3), "a")
	f.add(toBackends("b", "c"), toBackends("a"), at(5), at(15))
	check("a is back", beside(toBackends("a"), none, 6), "b", "c")
	check("until the workers have ended", beside(toBackends("a"), none, 14), "b", "c")
	check("after that", beside(toBackends("a"), none, 15))

	f = former{}
	for i := range maxFormer + 10 {
		f.add(toBackends(fmt.Sprint("h", i)), none, at(0), at(1).Add(time.Duration(i)))
	}
	_, first := f[id(toBackends("h9"))]
	_, last := f[id(toBackends(fmt.Sprint("h", maxFormer+9)))]
	if len(f) != maxFormer || first || !last {
		t.Errorf("%d actions are stored; the first: %t, the last: %t", len(f), first, last)
	}
}

// id returns the ID of the only action of a table.
func id(t routes.Table) string {
	for id := range t.Actions() {
		return id
	}
	return ""
}
