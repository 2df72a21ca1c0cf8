package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/lab"
)

const (
	// nameServer is the address of the DNS server of a site. countPort is the TCP port on which this server sends the
	// number of queries that it has received.
	nameServer = layout.ResolverAddress
	countPort  = 5300
	// ttl is the time in seconds for which an answer is valid. It is the same as in the answers that the agent sends for
	// the names of pods.
	ttl = 1
)

// podAddress returns a loopback address for a pod. Nothing listens on this address.
func podAddress(pod int) net.IP { return net.IPv4(127, 0, 1, byte(pod+1)) }

// serveNames runs a DNS server that answers queries for the names of pods. It returns when the server fails.
func serveNames() error {
	socket, err := net.ListenPacket("udp", nameServer)
	if err != nil {
		return err
	}
	counts, err := net.Listen("tcp", fmt.Sprint(":", countPort))
	if err != nil {
		return err
	}
	var queries atomic.Int64
	go func() {
		for {
			connection, err := counts.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprintln(connection, queries.Load())
			_ = connection.Close()
		}
	}()
	buffer := make([]byte, 512)
	for {
		n, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return err
		}
		queries.Add(1)
		answer, err := answerName(buffer[:n])
		if err != nil {
			return err
		}
		if _, err := socket.WriteTo(answer, from); err != nil {
			return err
		}
	}
}

// answerName returns the DNS answer with the address of the pod whose name is in the query. The name begins with
// edge-ORDINAL.
func answerName(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable = true, true
	for _, q := range m.Questions {
		first, _, _ := strings.Cut(q.Name.String(), ".")
		pod, err := strconv.Atoi(strings.TrimPrefix(first, "edge-"))
		if err != nil || q.Type != dnsmessage.TypeA {
			return nil, fmt.Errorf("%s is no address of a pod", q.GoString())
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: ttl},
			Body:   &dnsmessage.AResource{A: [4]byte(podAddress(pod).To4())},
		})
	}
	return m.Pack()
}

// queries returns the number of queries that the DNS server of a site has received.
func (b *bench) queries(site lab.Site) (int, error) {
	text, err := b.Client("bash", "-c", fmt.Sprintf("cat </dev/tcp/%s/%d", site.Address, countPort)).Output()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// atRest is the time for which rest measures nginx without requests. In this time, nginx sends a query for each name
// every two seconds.
const atRest = 31 * time.Second

// rest measures nginx without requests. queries is the number of DNS queries a second; 0 if the configuration contains
// no names. cpu is the processor time of the workers in milliseconds a second.
func (b *bench) rest(server *lab.Server, site lab.Site, names bool) (queries, cpu float64, err error) {
	first := 0
	if names {
		if first, err = b.queries(site); err != nil {
			return 0, 0, err
		}
	}
	before, err := server.Workers()
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(atRest)
	after, err := server.Workers()
	if err != nil {
		return 0, 0, err
	}
	sum, _ := lab.Used(before, after)
	cpu = float64(sum.Milliseconds()) / atRest.Seconds()
	if !names {
		return 0, cpu, nil
	}
	last, err := b.queries(site)
	return float64(last-first) / atRest.Seconds(), cpu, err
}
