package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/pki"
)

// TestFleet checks where an agent learns which pods share keys. It reads the annotation and the ConfigMap, and the
// newer of the two counts. With routing.mode Local, the agent uses neither for this purpose.
func TestFleet(t *testing.T) {
	t.Parallel()
	serial := func(members int, n int64) fleet.Fleet {
		f := fleet.Of(members)
		f.Serial = n
		return f
	}
	revision := agentapi.Revision{Name: "edge"}
	revision.Spec.Routing = v1alpha1.Routing{Mode: v1alpha1.RoutingSharded, TLS: v1alpha1.PeerTLSOff}
	self := func(ordinal int, f fleet.Fleet) cache.Fleet { return cache.Fleet{Fleet: f, Self: ordinal} }
	two, three := serial(2, 1), serial(3, 2)
	local := revision
	local.Spec.Routing.Mode = ""
	for name, tt := range map[string]struct {
		revision         agentapi.Revision
		annotation, file string
		hostname         string
		want             cache.Fleet
		fails            bool
	}{
		"Local": {
			revision: local, file: serial(2, 1).String(), hostname: "edge-1", want: self(0, serial(0, 1)),
		},
		"nothing is known":        {revision: revision, hostname: "edge-1", want: cache.Fleet{Self: 1}},
		"a new pod":               {revision, "", three.String(), "edge-2", self(2, three), false},
		"the annotation is newer": {revision, three.String(), two.String(), "edge-2", self(2, three), false},
		"the ConfigMap is newer":  {revision, two.String(), three.String(), "edge-0", self(0, three), false},
		"a damaged annotation":    {revision, "{", three.String(), "edge-0", cache.Fleet{}, true},
		"another's pod":           {revision, "", "", "other-0", cache.Fleet{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &conductor{Agent: &Agent{
				Paths: Paths{Config: t.TempDir(), PodInfo: t.TempDir(), Hostname: tt.hostname}, Log: slog.Default(),
			}}
			write(t, filepath.Join(a.Paths.PodInfo, layout.AnnotationsFile),
				naming.AnnotationFleet+"="+strconv.Quote(tt.annotation)+"\n")
			if tt.file != "" {
				write(t, filepath.Join(a.Paths.Config, naming.FleetKey), tt.file)
			}
			got, err := a.fleet(tt.revision)
			if (err != nil) != tt.fails {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPeersCertificate checks that a damaged certificate for connections between pods does not replace a good
// certificate, even after a restart of the agent.
func TestPeersCertificate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	agents, _, err := pki.Renew(nil, "a", now)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := pki.WithPeers(agents, nil, "b", now)
	if err != nil {
		t.Fatal(err)
	}
	a := &conductor{Agent: &Agent{Paths: Paths{Peer: t.TempDir(), Root: t.TempDir()}, Log: slog.Default()}}
	if _, err := a.peersHash(); err == nil {
		t.Error("there is no certificate, and no error")
	}
	for key, file := range map[string]string{
		naming.PeerCertificateKey: "tls.crt", naming.PeerKeyKey: "tls.key", naming.PeerAuthorityKey: "ca.crt",
	} {
		write(t, filepath.Join(a.Paths.Peer, file), string(secret[key]))
	}
	hash, err := a.peersHash()
	if err != nil || hash == "" {
		t.Fatal(hash, err)
	}
	for _, f := range a.files(cache.Config{}, cache.Facts{Fleet: cache.Fleet{Certificate: hash}}) {
		write(t, a.Paths.Root+f.Path, string(f.Content))
	}
	write(t, filepath.Join(a.Paths.Peer, "ca.crt"), "damaged")
	restarted := &conductor{Agent: &Agent{Paths: a.Paths, Log: slog.Default()}}
	for name, agent := range map[string]*conductor{"the same agent": a, "a restarted agent": restarted} {
		if got, err := agent.peersHash(); err != nil || got != hash {
			t.Errorf("%s has %q (%v), want %q", name, got, err, hash)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
