package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// rounds is the largest number of times that each name server is asked.
const rounds = 2

// pace defines how long the resolver waits for name servers.
type pace struct {
	// patience is the longest time for which the resolver lets nginx wait for an answer. nginx asks again after its
	// resolver_timeout. Meanwhile, a lookup continues for up to lookupTimeout, and nginx's next query gets the result of
	// this lookup.
	patience time.Duration
	// headStart is how long a name server may take before the resolver asks the next name server too.
	headStart time.Duration
	// repeatAfter is how long all name servers may take before the resolver asks them once more, because datagrams can be
	// lost.
	repeatAfter time.Duration
}

// usual is the pace of a resolver beside nginx.
var usual = pace{patience: 1500 * time.Millisecond, headStart: 300 * time.Millisecond, repeatAfter: time.Second}

// exchange asks the name servers, one after another, and returns the first valid answer with addresses. It always
// begins with the first name server, even if this server did not answer before, because the other servers may know
// fewer names. For example, a public server may be listed beside the cluster's own server. Therefore an answer without
// addresses counts only if all servers that are listed before the answering server have failed, or if ctx ends.
func (r *Resolver) exchange(ctx context.Context, name string, servers []netip.AddrPort) (*dns.Msg, error) {
	questions, cancel := context.WithCancel(ctx)
	defer cancel()
	left := slices.Repeat(servers, rounds)
	results := make(chan result, len(left))
	p := poll{open: make([]int, len(servers)), denials: make([]*dns.Msg, len(servers))}
	asked, err := 0, errors.New("no name server is known yet")
	next := time.NewTimer(0) //nolint:forbidigo // the real clock: sockets do not obey a fake clock
	defer next.Stop()
	for p.ended < len(left) {
		select {
		case <-next.C:
			if asked == len(left) {
				continue
			}
			i := asked % len(servers)
			asked++
			p.open[i]++
			go func() {
				answer, err := ask(questions, name, servers[i])
				results <- result{i, answer, err}
			}()
			if asked == len(servers) {
				next.Reset(max(r.pace.headStart, r.pace.repeatAfter-time.Duration(len(servers))*r.pace.headStart))
			} else {
				next.Reset(r.pace.headStart)
			}
		case got := <-results:
			if answer := p.add(got, asked); answer != nil {
				return answer, nil
			}
			if got.err != nil {
				err = got.err
			}
			if asked%len(servers) != 0 || p.ended == asked { // ask the next server at once
				next.Reset(0)
			}
		case <-ctx.Done():
			return p.denial(errors.Join(err, ctx.Err()))
		}
	}
	return p.denial(err)
}

// ask asks one name server by UDP. If the answer is too long for UDP, it asks again by TCP. Like nginx, it sends no
// EDNS.
func ask(ctx context.Context, name string, server netip.AddrPort) (*dns.Msg, error) {
	question := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
	answer, err := send(ctx, "udp", question, server)
	if answer != nil && answer.Truncated { // also if it was cut within a record (RFC 2181, section 9)
		answer, err = send(ctx, "tcp", question, server)
	}
	if err != nil {
		return nil, err
	}
	return answer, check(answer, question, server)
}

// send sends a question and receives the answer, until the context ends.
func send(ctx context.Context, network string, question *dns.Msg, server netip.AddrPort) (*dns.Msg, error) {
	client := dns.Client{Net: network, Timeout: lookupTimeout}
	connection, err := client.DialContext(ctx, server.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	connection.UDPSize = datagram
	if err := connection.WriteMsg(question); err != nil {
		return nil, err
	}
	return receive(connection, question.Id)
}

// receive returns the next answer with an ID. It ignores answers with other IDs. It returns an error for an answer that
// contains fewer records than its header says. Package dns would accept such an answer if the answer ends after a
// complete record.
func receive(connection *dns.Conn, id uint16) (*dns.Msg, error) {
	for {
		var header dns.Header
		text, err := connection.ReadMsgHeader(&header)
		if err != nil {
			return nil, err
		}
		if header.Id != id {
			continue
		}
		answer := new(dns.Msg)
		err = answer.Unpack(text)
		if err == nil && len(answer.Answer) < int(header.Ancount) {
			err = fmt.Errorf("%d of %d records are missing", int(header.Ancount)-len(answer.Answer), header.Ancount)
		}
		return answer, err
	}
}

// check returns an error for an unusable answer: one that neither contains the addresses of the name nor states that
// the name has no addresses.
func check(answer, question *dns.Msg, server netip.AddrPort) error {
	switch {
	case !answer.Response || answer.Opcode != dns.OpcodeQuery || len(answer.Question) != 1 ||
		canonical(answer.Question[0].Name) != canonical(question.Question[0].Name) ||
		answer.Question[0].Qtype != dns.TypeA || answer.Question[0].Qclass != dns.ClassINET:
		return fmt.Errorf("%s answers another question", server)
	case answer.Truncated:
		return fmt.Errorf("%s answers a part, also by TCP", server)
	case answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError:
		return fmt.Errorf("%s answers %s", server, dns.RcodeToString[answer.Rcode])
	case len(answer.Answer) == 0 && !answer.Authoritative && !answer.RecursionAvailable:
		return fmt.Errorf("%s refers to other name servers: it must be one that asks them itself", server)
	}
	return nil
}
