package resolver

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/cachenode/cachenode-operator/test/await"
)

// rawServer answers each datagram with the bytes that reply returns. If reply returns nil, it does not answer.
func rawServer(t *testing.T, socket net.PacketConn, reply func(question *dns.Msg) []byte) netip.AddrPort {
	t.Helper()
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		buffer := make([]byte, datagram)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			question := new(dns.Msg)
			if question.Unpack(buffer[:n]) != nil {
				continue
			}
			if text := reply(question); text != nil {
				_, _ = socket.WriteTo(text, from)
			}
		}
	}()
	return netip.MustParseAddrPort(socket.LocalAddr().String())
}

func loopback(t *testing.T) net.PacketConn {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return socket
}

// silent returns a name server that does not answer.
func silent(t *testing.T) netip.AddrPort {
	t.Helper()
	return rawServer(t, loopback(t), func(*dns.Msg) []byte { return nil })
}

func (n *network) use(servers ...netip.AddrPort) {
	n.resolver.mutex.Lock()
	c := n.resolver.config
	n.resolver.mutex.Unlock()
	c.Servers = servers
	n.resolver.Configure(c)
}

func record(t *testing.T, text string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

// TestNobodyHasSaidSo checks that nginx gets SERVFAIL, and so keeps its addresses, if a message of a name server does
// not answer the question.
func TestNobodyHasSaidSo(t *testing.T) {
	t.Parallel()
	reply := func(change func(*dns.Msg)) func(*dns.Msg) *dns.Msg {
		return func(question *dns.Msg) *dns.Msg {
			m := new(dns.Msg).SetReply(question)
			m.RecursionAvailable = true
			change(m)
			return m
		}
	}
	for name, tt := range map[string]func(*dns.Msg) *dns.Msg{
		"the question comes back": func(question *dns.Msg) *dns.Msg { return question },
		"for another name":        reply(func(m *dns.Msg) { m.Question[0].Name = "other.example.com." }),
		"for another type":        reply(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }),
		"for another class":       reply(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
		"another name is not there": reply(func(m *dns.Msg) {
			m.Rcode, m.Question[0].Name = dns.RcodeNameError, "other.example.com."
		}),
		"of another kind":     reply(func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }),
		"a header alone":      reply(func(m *dns.Msg) { m.Question = nil }),
		"a part, also by TCP": reply(func(m *dns.Msg) { m.Truncated = true }),
		"a referral": reply(func(m *dns.Msg) {
			m.RecursionAvailable = false
			m.Ns = append(m.Ns, record(t, "example.com. 5 NS ns.example.com."))
		}),
		"addresses of a wildcard": reply(func(m *dns.Msg) {
			m.Answer = append(m.Answer, record(t, "*.example.com. 5 A 192.0.2.1"))
		}),
		"a record without an address": reply(func(m *dns.Msg) {
			m.Answer = append(m.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5},
			})
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, nil)
			n.use(netip.MustParseAddrPort(n.serve(func(udp net.PacketConn, tcp net.Listener) {
				rawServer(t, udp, func(question *dns.Msg) []byte {
					text, err := tt(question).Pack()
					if err != nil {
						t.Error(err)
					}
					return text
				})
				handler := func(w dns.ResponseWriter, question *dns.Msg) { _ = w.WriteMsg(tt(question)) }
				go func() { _ = (&dns.Server{Listener: tcp, Handler: dns.HandlerFunc(handler)}).ActivateAndServe() }()
			})))
			if got := n.ask("www.example.com"); got.Rcode != "SERVFAIL" {
				t.Errorf("nginx gets %s", got.Rcode)
			}
		})
	}
}

// TestSilentServers checks that the next name server is asked while the servers before it are silent. If nginx has not
// waited for a lookup, its next question must get the result of this lookup.
func TestSilentServers(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]pace{
		"in time":  {patience: time.Minute, headStart: time.Millisecond, repeatAfter: time.Minute},
		"too late": {patience: time.Millisecond, headStart: 10 * time.Millisecond, repeatAfter: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, map[string][]string{"www.example.com": {"www.example.com. 1 A 192.0.2.1"}})
			n.resolver.pace = p
			n.use(silent(t), silent(t), n.resolver.config.Servers[0])
			if name == "too late" {
				await.Until(t, func() string { return strings.TrimPrefix(n.ask("www.example.com").Rcode, "NOERROR") })
			} else if got := n.ask("www.example.com"); got.Rcode != "NOERROR" {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestLateAnswer checks that the result of a slow lookup is kept until nginx asks again.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		took time.Duration
		want int // the number of lookups if nginx asks twice, three seconds apart
	}{
		"in time":  {time.Second, 2},
		"too late": {2 * time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, nil)
			var asked atomic.Int64
			n.use(rawServer(t, loopback(t), func(question *dns.Msg) []byte {
				asked.Add(1)
				n.clock.SetTime(n.clock.Now().Add(tt.took))
				m := new(dns.Msg).SetReply(question)
				m.RecursionAvailable = true
				m.Answer = []dns.RR{&dns.A{
					Hdr: dns.RR_Header{Name: question.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1},
					A:   net.ParseIP("192.0.2.1"),
				}}
				text, err := m.Pack()
				if err != nil {
					t.Error(err)
				}
				return text
			}))
			for range 2 {
				if got := n.ask("www.example.com"); got.Rcode != "NOERROR" {
					t.Fatalf("got %v", got)
				}
				n.clock.SetTime(n.clock.Now().Add(3 * time.Second))
			}
			if got := int(asked.Load()); got != tt.want {
				t.Errorf("the name server was asked %d times, want %d", got, tt.want)
			}
		})
	}
}

// TestFirstServer checks that the first name server is asked first even after it failed to answer. Another server may
// not know the cluster's names.
func TestFirstServer(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, map[string][]string{"www.example.com": {"www.example.com. 1 A 192.0.2.1"}})
	n.resolver.pace = pace{patience: time.Minute, headStart: time.Minute, repeatAfter: time.Minute}
	first, isDown := n.resolver.config.Servers[0], loopback(t)
	_ = isDown.Close() // a question there fails at once
	public := rawServer(t, loopback(t), func(question *dns.Msg) []byte {
		m := new(dns.Msg).SetRcode(question, dns.RcodeNameError)
		m.RecursionAvailable = true
		text, err := m.Pack()
		if err != nil {
			t.Error(err)
		}
		return text
	})
	n.use(netip.MustParseAddrPort(isDown.LocalAddr().String()), public)
	if got := n.ask("www.example.com"); got.Rcode != "NXDOMAIN" {
		t.Errorf("without the first: %v", got)
	}
	n.use(first, public)
	for range 3 {
		n.clock.SetTime(n.clock.Now().Add(maxTTL + time.Second))
		if got := n.ask("www.example.com"); got.Rcode != "NOERROR" {
			t.Errorf("with the first: %v", got)
		}
	}
}

// TestSlowFirstServer checks that the answer of a slow first name server counts, although the second has already
// answered that the name does not exist.
func TestSlowFirstServer(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, nil)
	n.resolver.pace = pace{patience: time.Minute, headStart: time.Millisecond, repeatAfter: time.Minute}
	denied := make(chan struct{})
	reply := func(question *dns.Msg, rcode int, records ...dns.RR) []byte {
		m := new(dns.Msg).SetRcode(question, rcode)
		m.RecursionAvailable, m.Answer = true, records
		text, err := m.Pack()
		if err != nil {
			t.Error(err)
		}
		return text
	}
	first := rawServer(t, loopback(t), func(question *dns.Msg) []byte {
		<-denied
		return reply(question, dns.RcodeSuccess, record(t, "www.example.com. 5 A 192.0.2.1"))
	})
	asked := 0
	second := rawServer(t, loopback(t), func(question *dns.Msg) []byte {
		if asked++; asked == 2 { // the answer to the first question is already on its way
			close(denied)
		}
		return reply(question, dns.RcodeNameError)
	})
	n.use(first, second, second)
	if got := n.ask("www.example.com"); got.Rcode != "NOERROR" {
		t.Errorf("got %v", got)
	}
}

// TestMissingRecords checks that an answer with fewer records than its header says does not count as an answer without
// addresses.
func TestMissingRecords(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, nil)
	n.resolver.pace.headStart = time.Millisecond
	n.use(rawServer(t, loopback(t), func(question *dns.Msg) []byte {
		m := new(dns.Msg).SetReply(question)
		m.RecursionAvailable = true
		text, err := m.Pack()
		if err != nil {
			t.Error(err)
		}
		binary.BigEndian.PutUint16(text[6:], 1) // the number of answers (RFC 1035, section 4.1.1)
		return text
	}))
	if got := n.ask("www.example.com"); got.Rcode != "SERVFAIL" {
		t.Errorf("nginx gets %s", got.Rcode)
	}
}

// TestOtherServers checks that after a change of the name servers, a question does not wait for the previous servers.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, map[string][]string{"www.example.com": {"www.example.com. 5 A 192.0.2.1"}})
	n.resolver.pace.patience = time.Millisecond
	alive := n.resolver.config.Servers
	n.use(silent(t))
	if got := n.ask("www.example.com"); got.Rcode != "SERVFAIL" {
		t.Errorf("of a silent name server: %v", got)
	}
	n.resolver.pace.patience = time.Minute
	n.use(alive...)
	if got := n.ask("www.example.com"); got.Rcode != "NOERROR" {
		t.Errorf("of one that answers: %v", got)
	}
}

// TestCutOff checks that the resolver asks again by TCP if an answer was cut within a record (RFC 2181, section 9).
func TestCutOff(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, nil)
	whole := func(question *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(question)
		for range 100 {
			m.Answer = append(m.Answer, record(t, "www.example.com. 5 A 192.0.2.1"))
		}
		return m
	}
	server := n.serve(func(udp net.PacketConn, tcp net.Listener) {
		rawServer(t, udp, func(question *dns.Msg) []byte {
			m := whole(question)
			m.Truncated = true
			text, err := m.Pack()
			if err != nil {
				t.Error(err)
			}
			return text[:dns.MinMsgSize]
		})
		handler := func(w dns.ResponseWriter, question *dns.Msg) { _ = w.WriteMsg(whole(question)) }
		go func() { _ = (&dns.Server{Listener: tcp, Handler: dns.HandlerFunc(handler)}).ActivateAndServe() }()
	})
	n.use(netip.MustParseAddrPort(server))
	if got := n.ask("www.example.com"); got.Rcode != "NOERROR" {
		t.Errorf("got %v", got)
	}
}
