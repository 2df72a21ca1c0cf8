package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/cachenode/cachenode-operator/internal/purgeapi"
)

// options are the command's flags.
type options struct {
	address, metricsAddress, probeAddress string
	metricsCerts                          string
	certFile, keyFile                     string
	api                                   purgeapi.Options
	log                                   zap.Options
}

// parse reads the flags. It prints the error in the flags, or the usage if that is requested.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	var namespaces, audiences string
	flags := flag.NewFlagSet("purge-api", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(out, "usage: purge-api [FLAGS]\n"+
			"Takes purges by HTTP (POST /v1/purges) from users whose token the API server knows and who may create CachePurges.")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.address, "bind-address", ":8443", "the address for requests, over TLS")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8444",
		"the address for metrics over TLS, for clients that the API server authenticates and authorizes; "+
			"0 switches metrics off")
	flags.StringVar(&o.metricsCerts, "metrics-cert-dir", "",
		"a folder with tls.crt and tls.key, for the metrics, which are read again when they change; "+
			"default: a certificate that is made at each start and that nobody can check")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8082", "the address for /healthz and /readyz")
	flags.StringVar(&o.certFile, "tls-cert-file", "",
		"a file with the certificate, which is read again when it changes; "+
			"default: one that is made at each start, which clients cannot check")
	flags.StringVar(&o.keyFile, "tls-private-key-file", "", "a file with the key of the certificate")
	flags.StringVar(&audiences, "audiences", "",
		"comma-separated audiences; a token must be for one of them; default: the API server's own")
	flags.StringVar(&namespaces, "watch-namespaces", "",
		"comma-separated namespaces in which purges are created; default: all")
	flags.IntVar(&o.api.TargetsPerSecond, "targets-per-second", 2000,
		"the number of URLs, prefixes, hosts and tags that a user may purge each second, on average")
	flags.IntVar(&o.api.Burst, "burst", 4000,
		"the number of URLs, prefixes, hosts and tags that a user may purge at once, and so of one request")
	flags.IntVar(&o.api.MaxWaiting, "max-waiting", 2000,
		"the number of requests that are answered at a time; one user gets half of them at most")
	flags.DurationVar(&o.api.BatchWindow, "batch-window", 25*time.Millisecond,
		"the time for which requests of a user for a CacheNode are gathered into a CachePurge")
	ttl := flags.Int("ttl-seconds-after-finished", 60,
		"the number of seconds after which a finished CachePurge is deleted, from 1 to 2592000")
	o.log.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.api.Namespaces, o.api.Audiences = list(namespaces), list(audiences)
	err := o.check(*ttl)
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
	}
	o.api.TTL = int32(*ttl) //nolint:gosec // check has limited it
	return o, err
}

func (o options) check(ttl int) error {
	for name, value := range map[string]int{
		"targets-per-second": o.api.TargetsPerSecond, "burst": o.api.Burst, "max-waiting": o.api.MaxWaiting,
	} {
		if value < 1 {
			return fmt.Errorf("--%s is %d, want at least 1", name, value)
		}
	}
	switch {
	case (o.certFile == "") != (o.keyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file go together: set both or none")
	case o.api.BatchWindow < 0 || o.api.BatchWindow > time.Second:
		return fmt.Errorf("--batch-window is %s, want 0s to 1s", o.api.BatchWindow)
	case ttl < 1 || ttl > 2592000:
		return fmt.Errorf("--ttl-seconds-after-finished is %d, want 1 to 2592000", ttl)
	}
	return nil
}

// list splits the value of a flag at its commas.
func list(flag string) []string {
	return strings.FieldsFunc(flag, func(r rune) bool { return r == ',' })
}
