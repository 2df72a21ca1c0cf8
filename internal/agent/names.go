package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/net/netutil"

	"github.com/cachenode/cachenode-operator/internal/agent/podinfo"
	"github.com/cachenode/cachenode-operator/internal/agent/resolver"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// configureResolver sets which name servers the resolver asks, and which addresses it leaves out of its answers.
func (c *conductor) configureResolver(revision agentapi.Revision) error {
	servers, err := podinfo.NameServers(revision.Resolvers, c.Paths.ResolvConf)
	if err != nil {
		return err
	}
	denied, err := c.denied(revision.Namespace)
	if err != nil {
		return err
	}
	c.resolver.Configure(resolver.Config{
		Servers: servers, ClusterDomain: revision.ClusterDomain, Denied: denied,
		PodDomain: naming.ServiceHost(naming.Headless(revision.Name), revision.Namespace, revision.ClusterDomain),
		Backends:  revision.Routes.BackendHosts(),
		FormerFor: formerFor(revision),
	})
	return nil
}

// reloadTime is more time than nginx takes to start new workers after the resolver is configured.
const reloadTime = time.Minute

// denied returns the addresses that the resolver never gives to nginx: the ranges in which no origin may be, and the
// addresses of the pod and of the API server. For names outside the cluster, denied adds the ranges that the operator
// denies.
func (c *conductor) denied(namespace string) (d resolver.Denied, err error) {
	d.Always = slices.Clone(validation.NoOrigin)
	own, err := net.InterfaceAddrs()
	if err != nil {
		return d, fmt.Errorf("the pod's addresses: %w", err)
	}
	for _, address := range own {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			d.Always = append(d.Always, one(prefix.Addr()))
		}
	}
	for _, variable := range apiServer {
		if address, err := netip.ParseAddr(os.Getenv(variable)); err == nil {
			d.Always = append(d.Always, one(address))
		}
	}
	text, err := os.ReadFile(filepath.Join(c.Paths.Config, naming.OriginPolicyKey))
	policy := agentapi.OriginPolicy{Namespaces: []string{"*"}} // for an older operator, which writes no policy
	if !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			policy, err = agentapi.ReadOriginPolicy(text)
		}
		if err != nil {
			return d, err
		}
	}
	d.Others = policy.DeniedRanges
	d.Namespaces = append([]string{namespace}, policy.Namespaces...)
	return d, nil
}

// apiServer lists the environment variables in which the kubelet gives the address at which pods reach the API
// server. The first variable can contain a host name.
var apiServer = []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_PORT_443_TCP_ADDR"}

// one returns the range that contains only the given address.
func one(address netip.Addr) netip.Prefix { return netip.PrefixFrom(address, address.BitLen()) }

// serveNames answers nginx's DNS queries until the context ends.
func (a *Agent) serveNames(ctx context.Context, udp net.PacketConn, tcp net.Listener) error {
	if err := a.resolver.Serve(ctx, udp, tcp); err != nil {
		return fmt.Errorf("the resolver: %w", err)
	}
	return nil
}

// nameConnections is the largest number of TCP connections to the resolver at a time. nginx opens a TCP connection
// for an answer that is too long for a datagram.
const nameConnections = 64

// listenForNames opens the resolver's sockets for UDP and TCP.
func listenForNames(ctx context.Context, address string) (udp net.PacketConn, tcp net.Listener, err error) {
	var config net.ListenConfig
	if udp, err = config.ListenPacket(ctx, "udp", address); err != nil {
		return nil, nil, fmt.Errorf("the resolver: %w", err)
	}
	if tcp, err = config.Listen(ctx, "tcp", address); err != nil {
		_ = udp.Close()
		return nil, nil, fmt.Errorf("the resolver: %w", err)
	}
	return udp, netutil.LimitListener(tcp, nameConnections), nil
}
