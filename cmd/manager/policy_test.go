package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cachenode/cachenode-operator/internal/validation"
)

func TestPolicyFlags(t *testing.T) {
	range24 := []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24")}
	tests := map[string]struct {
		args      []string
		apiServer string
		change    func(*validation.Policy)
		err       string // "" for none
	}{
		"defaults": {change: func(*validation.Policy) {}},
		"the chart's form of paths": {
			args:   []string{"--local-path-prefixes=/mnt/,/srv/cache/"},
			change: func(p *validation.Policy) { p.LocalPathPrefixes = []string{"/mnt", "/srv/cache"} },
		},
		"no paths": {
			args:   []string{"--local-path-prefixes="},
			change: func(p *validation.Policy) { p.LocalPathPrefixes = nil },
		},
		"one path in another": {
			args: []string{"--local-path-prefixes=/mnt/,/mnt/a/"},
			err:  "--local-path-prefixes: local path prefix /mnt/a lies in /mnt",
		},
		"images": {
			args:   []string{"--allowed-images=*"},
			change: func(p *validation.Policy) { p.Images = []string{"*"} },
		},
		"an image's short name": {
			args:   []string{"--allowed-images=nginx"},
			change: func(p *validation.Policy) { p.Images = []string{"docker.io/library/nginx"} },
		},
		"an image with a tag": {
			args: []string{"--allowed-images=nginx:1.30"},
			err:  "--allowed-images: \"nginx:1.30\": want a repository without tag or digest",
		},
		"priorities": {
			args:   []string{"--allowed-priority-classes=a,b"},
			change: func(p *validation.Policy) { p.PriorityClasses = []string{"a", "b"} },
		},
		"tolerations": {
			args:   []string{"--denied-tolerations="},
			change: func(p *validation.Policy) { p.DeniedTolerations = nil },
		},
		"annotations of pods": {
			args:   []string{"--allowed-pod-annotations=prometheus.io/*,a"},
			change: func(p *validation.Policy) { p.PodAnnotations = []string{"prometheus.io/*", "a"} },
		},
		"annotations of Services": {
			args:   []string{"--allowed-service-annotations=*"},
			change: func(p *validation.Policy) { p.ServiceAnnotations = []string{"*"} },
		},
		"namespaces to be apart from": {
			args:   []string{"--anti-affinity-namespaces=shop"},
			change: func(p *validation.Policy) { p.AntiAffinityNamespaces = []string{"shop"} },
		},
		"namespaces": {
			args:   []string{"--origin-namespaces=shop"},
			change: func(p *validation.Policy) { p.OriginNamespaces = []string{"shop"} },
		},
		"a range": {
			args:   []string{"--denied-origin-ranges=10.1.2.3/24"},
			change: func(p *validation.Policy) { p.DeniedOriginRanges = range24 },
		},
		"a range of IPv6": {args: []string{"--denied-origin-ranges=::ffff:10.0.0.0/104"}, err: "no range of IPv4 addresses"},
		"no range":        {args: []string{"--denied-origin-ranges=10.1.2.3"}, err: "--denied-origin-ranges"},
		"the API server": {apiServer: "10.96.0.1", change: func(p *validation.Policy) {
			p.DeniedOriginRanges = []netip.Prefix{netip.MustParsePrefix("10.96.0.1/32")}
		}},
		"the cluster's domain": {
			args:   []string{"--cluster-domain=example"},
			change: func(p *validation.Policy) { p.ClusterDomain = "example" },
		},
		"the cluster's domain, in another form": {
			args:   []string{"--cluster-domain=Cluster.Example."},
			change: func(p *validation.Policy) { p.ClusterDomain = "cluster.example" },
		},
		"no domain": {args: []string{"--cluster-domain=a b"}, err: "--cluster-domain"},
	}
	samePrefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := parse(tt.args)
			if err != nil {
				t.Fatal(err)
			}
			got, err := o.policy.policy(o.clusterDomain, tt.apiServer)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			want := validation.DefaultPolicy()
			tt.change(&want)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), samePrefix); diff != "" || err != nil {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}
