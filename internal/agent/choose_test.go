package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	revision := func(revision string) *agentapi.Revision { return &agentapi.Revision{ID: revision} }
	both := offers{stable: revision("s"), candidate: revision("c")}
	tests := map[string]struct {
		offers     offers
		annotation string
		running    *agentapi.Revision
		want       string
	}{
		"a new pod starts on stable":                              {both, "", nil, "s"},
		"a new pod with an old annotation starts on stable":       {both, "x", nil, "s"},
		"the candidate, when it is named":                         {both, "c", revision("s"), "c"},
		"stable, when it is named":                                {both, "s", revision("c"), "s"},
		"the annotation is here, the ConfigMap is not":            {both, "n", revision("s"), "s"},
		"a candidate that has gone goes on until it is told":      {offers{stable: revision("s")}, "c", revision("c"), "c"},
		"no annotation any more: back to stable":                  {both, "", revision("c"), "s"},
		"nothing readable: what runs goes on":                     {offers{}, "c", revision("x"), "x"},
		"the candidate has become stable, the annotation is same": {offers{stable: revision("c")}, "c", revision("c"), "c"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := choose(tt.offers, tt.annotation, tt.running)
			if got == nil || got.ID != tt.want {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
	if got := choose(offers{}, "", nil); got != nil {
		t.Errorf("out of nothing comes %+v", got)
	}
}

func TestReadOffers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := readOffers(dir); err == nil {
		t.Error("no stable.json, no error")
	}
	good := `{"format":1,"minReader":1,"revision":"a","spec":{"disks":[{"name":"disk1","size":"1Gi"}]}}`
	write := func(key, text string) {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(naming.StableKey, good)
	if o, err := readOffers(dir); err != nil || o.stable.ID != "a" || o.candidate != nil {
		t.Errorf("%+v, error %v", o, err)
	}
	write(naming.CandidateKey, "{")
	if o, err := readOffers(dir); err == nil || o.stable == nil {
		t.Errorf("a candidate that cannot be read: %+v, error %v; stable must stand", o, err)
	}
}
