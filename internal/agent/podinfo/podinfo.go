// Package podinfo reads the facts about a pod that the kubelet and the container runtime provide to a container.
//
// It imports layout and naming. Code for a new fact about the pod that Kubernetes provides goes here.
package podinfo

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/cachenode/cachenode-operator/internal/layout"
)

// Annotations reads the pod's annotations from the file of a downward API volume. Each line is `key="value"`, with the
// value quoted as by strconv.Quote.
func Annotations(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, layout.AnnotationsFile)) //nolint:gosec // the path is ours
	if err != nil {
		return nil, err
	}
	return parseAnnotations(string(text)), nil
}

func parseAnnotations(text string) map[string]string {
	annotations := map[string]string{}
	for line := range strings.Lines(text) {
		key, quoted, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			continue
		}
		if value, err := strconv.Unquote(quoted); err == nil {
			annotations[key] = value
		}
	}
	return annotations
}

// Cores returns the CPU limit of nginx's container in whole cores, rounded up. Without a limit, the file contains the
// number of the node's cores.
func Cores(dir string) (int32, error) {
	text, err := os.ReadFile(filepath.Join(dir, layout.CPULimitFile)) //nolint:gosec // the path is ours
	if err != nil {
		return 0, err
	}
	milli, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || milli <= 0 {
		return 0, fmt.Errorf("%s: %q is no number of thousandths of a core", layout.CPULimitFile, text)
	}
	return int32(min((milli+999)/1000, 1024)), nil
}

// Memory returns the memory limit of nginx's container in bytes. Without a limit, the file contains the memory that
// the node has for pods.
func Memory(dir string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, layout.MemoryLimitFile)) //nolint:gosec // the path is ours
	if err != nil {
		return 0, err
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || bytes <= 0 {
		return 0, fmt.Errorf("%s: %q is no number of bytes", layout.MemoryLimitFile, text)
	}
	return bytes, nil
}

// NameServers returns the DNS servers that a revision names. If the revision names none, it returns the DNS servers
// in a resolv.conf. It leaves out entries that are not IP addresses.
func NameServers(named []string, resolvConf string) (servers []netip.AddrPort, err error) {
	if len(named) == 0 {
		config, err := dns.ClientConfigFromFile(resolvConf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", resolvConf, err)
		}
		named = config.Servers
	}
	err = fmt.Errorf("%s: no DNS server", resolvConf)
	for _, text := range named {
		var address netip.Addr
		if address, err = netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
			servers = append(servers, netip.AddrPortFrom(address, 53))
		}
	}
	if len(servers) == 0 {
		return nil, err
	}
	return servers, nil
}
