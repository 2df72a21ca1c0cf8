// Command coredns is CoreDNS with the plugins that the test cluster uses.
package main

import (
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
)

func init() { dnsserver.Directives = []string{"errors", "ready", "cache", "kubernetes"} }

func main() { coremain.Run() }
