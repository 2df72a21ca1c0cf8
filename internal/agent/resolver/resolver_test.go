package resolver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/test/await"
)

// network is a resolver and a name server, both on loopback.
type network struct {
	t        *testing.T
	resolver *Resolver
	clock    *clocktesting.FakePassiveClock
	address  string

	mutex sync.Mutex
	// zone contains the records of each name, as in a zone file; a name without records has no address. rcodes contains
	// the response codes of the answers, by name.
	zone   map[string][]string
	rcodes map[string]int
	// asked counts the questions for each name. overTCP counts the questions by TCP.
	asked, overTCP map[string]int
	results        map[Result]int
}

var ranges = Denied{
	Always: []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("10.96.0.1/32"),
	},
	Others:     []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	Namespaces: []string{"shop"},
}

func newNetwork(t *testing.T, zone map[string][]string) *network {
	n := &network{
		t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1_000_000_000, 0)), zone: zone,
		rcodes: map[string]int{}, asked: map[string]int{}, overTCP: map[string]int{}, results: map[Result]int{},
	}
	n.resolver = New(slog.New(slog.DiscardHandler), n.clock, func(r Result) {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		n.results[r]++
	})
	n.resolver.pace = pace{patience: time.Minute, headStart: time.Minute, repeatAfter: time.Minute}
	server := n.serve(func(udp net.PacketConn, tcp net.Listener) {
		for _, s := range []*dns.Server{
			{PacketConn: udp, Handler: dns.HandlerFunc(n.nameServer)}, {Listener: tcp, Handler: dns.HandlerFunc(n.nameServer)},
		} {
			go func() { _ = s.ActivateAndServe() }()
		}
	})
	n.resolver.Configure(Config{
		Servers: []netip.AddrPort{netip.MustParseAddrPort(server)}, ClusterDomain: "cluster.local",
		PodDomain: "edge-pods.shop.svc.cluster.local", Denied: ranges,
		Backends: map[string]bool{"Web.team.svc.cluster.local": true},
	})
	n.address = n.serve(func(udp net.PacketConn, tcp net.Listener) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.resolver.Serve(ctx, udp, tcp) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	})
	return n
}

// serve opens sockets for UDP and TCP on one port.
func (n *network) serve(start func(net.PacketConn, net.Listener)) (address string) {
	n.t.Helper()
	for range 100 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			n.t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		if err != nil { // another socket uses the port
			_ = tcp.Close()
			continue
		}
		n.t.Cleanup(func() { _, _ = udp.Close(), tcp.Close() })
		start(udp, tcp)
		return tcp.Addr().String()
	}
	n.t.Fatal("no port is free for both UDP and TCP")
	return ""
}

func (n *network) nameServer(w dns.ResponseWriter, question *dns.Msg) {
	name := canonical(question.Question[0].Name)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.asked[name]++
	answer := new(dns.Msg).SetReply(question)
	if w.RemoteAddr().Network() == "tcp" {
		n.overTCP[name]++
	}
	records, exists := n.zone[name]
	if answer.Rcode = n.rcodes[name]; !exists && answer.Rcode == dns.RcodeSuccess {
		answer.Rcode = dns.RcodeNameError
	}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			n.t.Error(err)
			continue
		}
		answer.Answer = append(answer.Answer, rr)
	}
	answer.RecursionAvailable, answer.Compress = true, true
	if w.RemoteAddr().Network() == "udp" {
		answer.Truncate(dns.MinMsgSize)
	}
	_ = w.WriteMsg(answer)
}

// says sets the records and the response code with which the name server answers a question for a name.
func (n *network) says(name string, rcode int, records ...string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.zone[name], n.rcodes[name] = records, rcode
}

// count returns how often the name server was asked for a name, and how often by TCP.
func (n *network) count(name string) (all, overTCP int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.asked[name], n.overTCP[name]
}

// answered is the answer that nginx gets.
type answered struct {
	Rcode     string
	Addresses []string
	TTL       uint32
}

func (n *network) ask(name string) (a answered) {
	n.t.Helper()
	client := dns.Client{UDPSize: datagram, Timeout: await.Patience}
	got, _, err := client.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), n.address)
	if err != nil {
		n.t.Fatal(err)
	}
	a.Rcode = dns.RcodeToString[got.Rcode]
	for _, rr := range got.Answer {
		a.Addresses = append(a.Addresses, rr.(*dns.A).A.String())
		a.TTL = rr.Header().Ttl
	}
	return a
}

func resolved(ttl uint32, addresses ...string) answered {
	return answered{Rcode: "NOERROR", Addresses: addresses, TTL: ttl}
}

// TestAnswers checks the answers that nginx gets for each kind of answer of a name server, including false answers.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const service, pod = "origin.shop.svc.cluster.local", "edge-1.edge-pods.shop.svc.cluster.local"
	const vault, kubernetes = "vault.secrets.svc.cluster.local", "kubernetes.default.svc.cluster.local"
	const backend = "web.team.svc.cluster.local"
	nameError, failure := answered{Rcode: "NXDOMAIN"}, answered{Rcode: "SERVFAIL"}
	for name, tt := range map[string]struct {
		ask   string // www.example.com if it is empty
		zone  []string
		rcode int
		want  answered
	}{
		"an address": {zone: []string{"www.example.com. 5 A 192.0.2.1"}, want: resolved(5, "192.0.2.1")},
		"a record of another class": {
			zone: []string{"www.example.com. 5 CH A 192.0.2.66", "www.example.com. 5 A 192.0.2.1"},
			want: resolved(5, "192.0.2.1"),
		},
		"several addresses": {
			zone: []string{"www.example.com. 5 A 192.0.2.2", "www.example.com. 3 A 192.0.2.1"},
			want: resolved(3, "192.0.2.1", "192.0.2.2"),
		},
		"a long life":                {zone: []string{"www.example.com. 3600 A 192.0.2.1"}, want: resolved(10, "192.0.2.1")},
		"no life":                    {zone: []string{"www.example.com. 0 A 192.0.2.1"}, want: resolved(1, "192.0.2.1")},
		"an unknown name":            {rcode: dns.RcodeNameError, want: nameError},
		"a name without address":     {zone: []string{}, want: nameError},
		"IPv6 only":                  {zone: []string{"www.example.com. 5 AAAA 2001:db8::1"}, want: nameError},
		"a name server that fails":   {rcode: dns.RcodeServerFailure, want: failure},
		"a name server that refuses": {rcode: dns.RcodeRefused, want: failure},
		"an alias": {
			zone: []string{"www.example.com. 4 CNAME a.example.net.", "a.example.net. 9 A 192.0.2.1"},
			want: resolved(4, "192.0.2.1"),
		},
		"an alias that is left to us": {
			zone: []string{"www.example.com. 4 CNAME b.example.net."}, want: resolved(4, "192.0.2.7"),
		},
		"aliases in a circle": {
			zone: []string{"www.example.com. 4 CNAME a.example.net.", "a.example.net. 4 CNAME www.example.com."},
			want: failure,
		},
		"aliases in a circle, one by one":  {zone: []string{"www.example.com. 9 CNAME c.example.net."}, want: failure},
		"only an address of somebody else": {zone: []string{"other.example.com. 5 A 192.0.2.9"}, want: failure},
		"an address of somebody else": {
			zone: []string{"www.example.com. 5 A 192.0.2.1", "other.example.com. 5 A 192.0.2.9"},
			want: resolved(5, "192.0.2.1"),
		},
		"loopback":                           {zone: []string{"www.example.com. 5 A 127.0.0.1"}, want: nameError},
		"metadata":                           {zone: []string{"www.example.com. 5 A 169.254.169.254"}, want: nameError},
		"API server":                         {zone: []string{"www.example.com. 5 A 10.96.0.1"}, want: nameError},
		"a network that the operator denies": {zone: []string{"www.example.com. 5 A 10.244.0.1"}, want: nameError},
		"some denied": {
			zone: []string{
				"www.example.com. 5 A 127.0.0.1", "www.example.com. 5 A 192.0.2.1", "www.example.com. 5 A 169.254.169.254",
			},
			want: resolved(5, "192.0.2.1"),
		},
		"a Service": {ask: service, zone: []string{service + ". 5 A 10.96.7.7"}, want: resolved(5, "10.96.7.7")},
		"the API server's Service by another name": {
			ask: service, zone: []string{service + ". 5 A 10.96.0.1"}, want: nameError,
		},
		"a Service of a namespace that is no longer allowed": {
			ask: vault, zone: []string{vault + ". 5 A 10.96.9.9"}, want: nameError,
		},
		"the API server's Service": {ask: kubernetes, zone: []string{kubernetes + ". 5 A 10.96.9.9"}, want: nameError},
		"a name of the cluster that is no Service's": {
			ask: "10-0-0-5.shop.pod.cluster.local", zone: []string{"10-0-0-5.shop.pod.cluster.local. 5 A 10.0.0.5"},
			want: nameError,
		},
		"a Service's endpoint on loopback": {
			ask: service, zone: []string{service + ". 5 A 127.0.0.1"}, want: nameError,
		},
		"a Service that is an alias for a public name": {
			ask: service, zone: []string{service + ". 5 CNAME a.example.net.", "a.example.net. 5 A 10.244.0.1"}, want: nameError,
		},
		"a Service that is an alias for a Service of an allowed namespace": {
			ask: service, want: resolved(5, "10.96.8.8"),
			zone: []string{service + ". 5 CNAME other.shop.svc.cluster.local.", "other.shop.svc.cluster.local. 5 A 10.96.8.8"},
		},
		"a Service that is an alias for one of another namespace": {
			ask: service, want: nameError, zone: []string{service + ". 5 CNAME " + vault + ".", vault + ". 5 A 10.96.9.9"},
		},
		"a Service that is an alias for the API server": {
			ask: service, want: nameError,
			zone: []string{service + ". 5 CNAME " + kubernetes + ".", kubernetes + ". 5 A 192.0.2.9"},
		},
		"a name outside that is an alias for one of another namespace": {
			zone: []string{"www.example.com. 5 CNAME " + vault + ".", vault + ". 5 A 192.0.2.9"}, want: nameError,
		},
		"that alias, left to us": {zone: []string{"www.example.com. 5 CNAME " + vault + "."}, want: nameError},
		"that alias, said not to be": {
			zone: []string{"www.example.com. 5 CNAME " + vault + "."}, rcode: dns.RcodeNameError, want: nameError,
		},
		"a name outside that claims to be an allowed Service": {
			zone: []string{"www.example.com. 5 CNAME " + service + ".", service + ". 5 A 10.244.0.1"}, want: nameError,
		},
		"a name outside that is an allowed Service elsewhere": {
			zone: []string{"www.example.com. 5 CNAME " + service + ".", service + ". 5 A 192.0.2.9"},
			want: resolved(5, "192.0.2.9"),
		},
		"a name outside that claims to be a pod": {
			zone: []string{"www.example.com. 5 CNAME " + pod + ".", pod + ". 5 A 10.96.0.1"}, want: nameError,
		},
		"a Service that leaves the cluster and comes back": {
			ask: service, want: nameError, zone: []string{
				service + ". 5 CNAME www.example.com.", "www.example.com. 5 CNAME other.shop.svc.cluster.local.",
				"other.shop.svc.cluster.local. 5 A 10.244.0.1",
			},
		},
		"a route's backend": {
			ask: backend, zone: []string{backend + ". 5 A 10.96.7.7"}, want: resolved(5, "10.96.7.7"),
		},
		"a route's backend at the API server's address": {
			ask: backend, zone: []string{backend + ". 5 A 10.96.0.1"}, want: nameError,
		},
		"a route's backend that is an alias for one of another namespace": {
			ask: backend, zone: []string{backend + ". 5 CNAME " + vault + ".", vault + ". 5 A 10.96.9.9"}, want: nameError,
		},
		"a Service that is an alias for a route's backend": {
			ask: service, zone: []string{service + ". 5 CNAME " + backend + ".", backend + ". 5 A 10.96.7.7"}, want: nameError,
		},
		"a pod that is an alias": {
			ask: pod, zone: []string{pod + ". 5 CNAME www.example.com.", "www.example.com. 5 A 192.0.2.9"}, want: nameError,
		},
		"a name that ends like the cluster's": {
			ask: "x.evilcluster.local", zone: []string{"x.evilcluster.local. 5 A 10.244.0.1"}, want: nameError,
		},
		"a pod": {ask: pod, zone: []string{pod + ". 30 A 10.244.0.1"}, want: resolved(1, "10.244.0.1")},
		"a pod at the API server's address": {
			ask: pod, zone: []string{pod + ". 30 A 10.96.0.1"}, want: nameError,
		},
		"a pod on loopback": {ask: pod, zone: []string{pod + ". 30 A 127.0.0.1"}, want: nameError},
		"upper case": {
			ask: "WWW.Example.COM", zone: []string{"www.example.com. 5 A 192.0.2.1"}, want: resolved(5, "192.0.2.1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, map[string][]string{
				"b.example.net": {"b.example.net. 9 A 192.0.2.7"},
				"c.example.net": {"c.example.net. 9 CNAME d.example.net."},
				"d.example.net": {"d.example.net. 9 CNAME c.example.net."},
				vault:           {vault + ". 9 A 192.0.2.9"},
			})
			n.clock.SetTime(n.clock.Now().Add(agentapi.AddressesValid)) // the operator has sent no addresses
			if tt.ask == "" {
				tt.ask = "www.example.com"
			}
			n.says(canonical(tt.ask), tt.rcode, tt.zone...)
			first := n.ask(tt.ask) // nginx is to ask again soon for a new name
			if diff := cmp.Diff(tt.want, n.ask(tt.ask), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			tt.want.TTL = min(tt.want.TTL, 1)
			if diff := cmp.Diff(tt.want, first, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the first answer: %s", diff)
			}
		})
	}
}

// TestLongAnswers checks that the resolver asks by TCP if the answer of a name server is too long for a datagram. It
// also checks that the longest answer to nginx fits into a datagram.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, map[string][]string{})
	const name = "an-origin-with-a-long-name-and-many-addresses.a-department-with-a-long-name.example.com"
	var records []string
	for i := range 1000 {
		records = append(records, fmt.Sprintf("%s. 5 A 192.0.%d.%d", name, i/250, i%250))
	}
	n.says(name, 0, records...)
	for _, protocol := range []string{"udp", "tcp"} {
		client := dns.Client{Net: protocol, UDPSize: datagram, Timeout: await.Patience}
		got, _, err := client.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), n.address)
		if err != nil {
			t.Fatal(err)
		}
		if got.Truncated || len(got.Answer) != maxAddresses {
			t.Errorf("%s: %d addresses, truncated %t", protocol, len(got.Answer), got.Truncated)
		}
	}
	if _, overTCP := n.count(name); overTCP != 1 {
		t.Errorf("the name server was asked %d times by TCP, want 1", overTCP)
	}
}

// TestNoQuestion checks that the resolver answers a message without a question, and continues to serve.
func TestNoQuestion(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, map[string][]string{"www.example.com": {"www.example.com. 5 A 192.0.2.1"}})
	for _, protocol := range []string{"udp", "tcp"} {
		client := dns.Client{Net: protocol, Timeout: await.Patience}
		message := &dns.Msg{MsgHdr: dns.MsgHdr{Id: 1}, Question: []dns.Question{}}
		text, err := message.Pack()
		if err != nil {
			t.Fatal(err)
		}
		text[5] = 1 // the count of questions
		connection, err := client.Dial(n.address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := connection.Write(text); err != nil {
			t.Fatal(err)
		}
		if got, err := connection.ReadMsg(); err != nil || got.Rcode != dns.RcodeFormatError {
			t.Errorf("%s: %v %v", protocol, got, err)
		}
		_ = connection.Close()
	}
	if got := n.ask("www.example.com"); got.Rcode != "NOERROR" {
		t.Errorf("then a question: %v", got)
	}
}

// TestOtherQuestions checks that the resolver answers only questions for IPv4 addresses.
func TestOtherQuestions(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, map[string][]string{"www.example.com": {"www.example.com. 5 A 192.0.2.1"}})
	for _, kind := range []uint16{dns.TypeAAAA, dns.TypeANY, dns.TypeSRV, dns.TypePTR} {
		got, err := dns.Exchange(new(dns.Msg).SetQuestion("www.example.com.", kind), n.address)
		if err != nil {
			t.Fatal(err)
		}
		if got.Rcode != dns.RcodeNotImplemented || len(got.Answer) != 0 {
			t.Errorf("%s: %s", dns.TypeToString[kind], got)
		}
	}
	if asked, _ := n.count("www.example.com"); asked != 0 {
		t.Errorf("the name server was asked %d times", asked)
	}
}

// TestRemembers checks that a name server is asked only once during the TTL of its answer. If the name server fails
// after that, the resolver must not return the old answer.
func TestRemembers(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, map[string][]string{"www.example.com": {"www.example.com. 5 A 192.0.2.1"}})
	step := func(after time.Duration, want answered, asked int) {
		t.Helper()
		n.clock.SetTime(n.clock.Now().Add(after))
		if diff := cmp.Diff(want, n.ask("www.example.com")); diff != "" {
			t.Error(diff)
		}
		if got, _ := n.count("www.example.com"); got != asked {
			t.Errorf("the name server was asked %d times, want %d", got, asked)
		}
	}
	step(0, resolved(1, "192.0.2.1"), 1) // nginx is to ask again soon for a new name
	step(3*time.Second, resolved(2, "192.0.2.1"), 1)
	n.says("www.example.com", 0, "www.example.com. 5 A 192.0.2.2")
	step(time.Second, resolved(1, "192.0.2.1"), 1)
	step(time.Second, resolved(5, "192.0.2.2"), 2)
	n.says("www.example.com", dns.RcodeServerFailure)
	step(5*time.Second, answered{Rcode: "SERVFAIL"}, 2+rounds) // nginx keeps 192.0.2.2
	n.says("www.example.com", 0, "www.example.com. 5 A 192.0.2.2")
	step(0, resolved(5, "192.0.2.2"), 3+rounds)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if diff := cmp.Diff(map[Result]int{Resolved: 5, Failed: 1}, n.results); diff != "" {
		t.Error(diff)
	}
}

// TestProblem checks that a name with only denied addresses is a problem until the name gets another address.
func TestProblem(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, map[string][]string{"gone.example.com": {}})
	const name = "www.example.com"
	n.says(name, 0, name+". 1 A 127.0.0.1", name+". 1 A 169.254.169.254")
	for _, name := range []string{name, "gone.example.com", "unknown.example.com"} {
		n.ask(name)
	}
	const want = "www.example.com leads only to addresses where no origin may be (127.0.0.1): " +
		"change where it leads, or spec.origin"
	if err := n.resolver.Problem(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	n.clock.SetTime(n.clock.Now().Add(time.Second))
	n.says(name, 0, name+". 1 A 127.0.0.1", name+". 1 A 192.0.2.1")
	n.ask(name)
	if err := n.resolver.Problem(); err != nil {
		t.Error(err)
	}
	n.clock.SetTime(n.clock.Now().Add(time.Second))
	n.says(name, 0, name+". 1 A 127.0.0.1")
	n.ask(name)
	n.clock.SetTime(n.clock.Now().Add(forgotten)) // after an edit, nginx no longer asks for this name
	if err := n.resolver.Problem(); err != nil {
		t.Errorf("nobody asks for the name: %v", err)
	}
}

// TestDeniedLater checks that nginx does not keep an address that becomes denied while no name server answers.
func TestDeniedLater(t *testing.T) {
	t.Parallel()
	const name = "www.example.com"
	n := newNetwork(t, map[string][]string{name: {name + ". 1 A 192.0.2.1", name + ". 1 A 198.51.100.1"}})
	n.ask(name)
	deny := func(ranges ...string) {
		c := n.resolver.config
		for _, r := range ranges {
			c.Denied.Others = append(c.Denied.Others, netip.MustParsePrefix(r))
		}
		n.resolver.Configure(c)
	}
	n.clock.SetTime(n.clock.Now().Add(time.Second))
	n.says(name, dns.RcodeServerFailure)
	for _, step := range []struct {
		denied []string
		want   answered
	}{
		{nil, answered{Rcode: "SERVFAIL"}},
		{[]string{"192.0.2.0/24"}, resolved(1, "198.51.100.1")},
		{[]string{"198.51.100.0/24"}, answered{Rcode: "NXDOMAIN"}},
	} {
		deny(step.denied...)
		if diff := cmp.Diff(step.want, n.ask(name)); diff != "" {
			t.Errorf("with %v denied: %s", step.denied, diff)
		}
	}
}

// TestFormerBackend checks that the name of a Service in the namespace of another team resolves for some time after
// routes no longer lead to it, and that it resolves again as soon as they do.
func TestFormerBackend(t *testing.T) {
	t.Parallel()
	const name = "web.team.svc.cluster.local"
	n := newNetwork(t, map[string][]string{name: {name + ". 30 A 10.1.2.3"}})
	backends := func(of map[string]bool) {
		c := n.resolver.config
		c.Backends, c.FormerFor = of, time.Hour
		n.resolver.Configure(c)
	}
	for step, tt := range []struct {
		backends map[string]bool
		after    time.Duration
		want     string
	}{
		{map[string]bool{name: true}, 0, "NOERROR"},
		{nil, 0, "NOERROR"},
		{map[string]bool{"other.team.svc.cluster.local": true}, 59 * time.Minute, "NOERROR"},
		{nil, time.Minute, "NXDOMAIN"},
		{map[string]bool{name: true}, 0, "NOERROR"},
		{nil, time.Hour, "NXDOMAIN"},
	} {
		backends(tt.backends)
		n.clock.SetTime(n.clock.Now().Add(tt.after))
		if got := n.ask(name).Rcode; got != tt.want {
			t.Errorf("step %d: %s, want %s", step, got, tt.want)
		}
	}
}

// TestPods checks that the addresses of pods that the operator has sent are used for a limited time. After that, the
// resolver uses the answers of the name server.
func TestPods(t *testing.T) {
	t.Parallel()
	host := func(pod int) string { return fmt.Sprintf("edge-%d.edge-pods.shop.svc.cluster.local", pod) }
	n := newNetwork(t, map[string][]string{host(1): {host(1) + ". 5 A 10.244.9.9"}})
	address := netip.MustParseAddr
	want := func(pod int, want answered) {
		t.Helper()
		if diff := cmp.Diff(want, n.ask(host(pod))); diff != "" {
			t.Errorf("pod %d: %s", pod, diff)
		}
	}
	want(1, answered{Rcode: "SERVFAIL"}) // the operator may send addresses soon
	n.clock.SetTime(n.clock.Now().Add(agentapi.AddressesValid))
	want(1, resolved(1, "10.244.9.9"))
	n.resolver.Tell(agentapi.Addresses{Pods: map[string]netip.Addr{
		"edge-1": address("10.244.1.1"), "edge-2": address("127.0.0.1"), "edge-3": address("2001:db8::1"),
	}})
	want(1, resolved(1, "10.244.1.1"))
	want(2, resolved(1, Nobody.String())) // the loopback address is denied
	want(3, resolved(1, Nobody.String())) // nginx asks only for IPv4 addresses
	want(4, resolved(1, Nobody.String()))
	if got := n.ask("x." + host(1)); got.Rcode != "NXDOMAIN" {
		t.Errorf("a name below a pod's: %v", got)
	}
	n.clock.SetTime(n.clock.Now().Add(agentapi.AddressesValid - 1))
	want(1, resolved(1, "10.244.1.1"))
	n.clock.SetTime(n.clock.Now().Add(1))
	want(1, resolved(1, "10.244.9.9"))
	want(4, answered{Rcode: "NXDOMAIN"})
	n.resolver.Tell(agentapi.Addresses{Pods: map[string]netip.Addr{"edge-1": address("10.244.1.2")}})
	want(1, resolved(1, "10.244.1.2"))
}

// TestNobody checks that the kernel refuses a connection to the address Nobody at once.
func TestNobody(t *testing.T) {
	t.Parallel()
	for _, pod := range []string{Nobody.String() + ":8088", Nobody.String() + ":8089"} {
		if _, err := net.Dial("tcp", pod); !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("%s: %v, want %v", pod, err, syscall.ENETUNREACH)
		}
	}
}

// TestUnreachable checks that the answer is SERVFAIL while no name server is known, or no name server answers.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, map[string][]string{"www.example.com": {"www.example.com. 5 A 192.0.2.1"}})
	servers := n.resolver.config.Servers
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	nobody := netip.MustParseAddrPort(closed.LocalAddr().String())
	for name, tt := range map[string]struct {
		servers []netip.AddrPort
		want    answered
	}{
		"no server":                  {nil, answered{Rcode: "SERVFAIL"}},
		"a server that is not there": {[]netip.AddrPort{nobody}, answered{Rcode: "SERVFAIL"}},
		"the second server is there": {[]netip.AddrPort{nobody, servers[0]}, resolved(1, "192.0.2.1")},
	} {
		t.Run(name, func(t *testing.T) {
			n.resolver.Configure(Config{Servers: tt.servers})
			n.resolver.mutex.Lock()
			n.resolver.names = names{}
			n.resolver.mutex.Unlock()
			if diff := cmp.Diff(tt.want, n.ask("www.example.com")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNamesAreBounded checks that the number of stored names is limited.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	known, now := names{}, time.Unix(1_000_000_000, 0)
	for i := range 3 * maxNames {
		known.add(fmt.Sprint(i), reply{expires: now.Add(time.Hour)}, now)
		if len(known) > maxNames {
			t.Fatalf("%d names", len(known))
		}
	}
	clear(known)
	known.add("lasts", reply{expires: now.Add(time.Hour)}, now)
	for i := range maxNames {
		known.add(fmt.Sprint(i), reply{expires: now.Add(time.Minute)}, now)
	}
	if _, ok := known["lasts"]; ok {
		t.Error("all were in use, and one was kept")
	}
	known.add("lasts", reply{expires: now.Add(time.Hour)}, now)
	for i := range maxNames {
		known.add(fmt.Sprint("other", i), reply{expires: now.Add(time.Minute)}, now.Add(2*time.Minute))
	}
	if _, ok := known["lasts"]; !ok {
		t.Error("a name was forgotten although others were over")
	}
}
