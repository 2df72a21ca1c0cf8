package explain

import (
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestRefusedHost(t *testing.T) {
	named := []v1alpha1.Hostname{"cdn.example.com", "*.example.org"}
	for name, tt := range map[string]struct {
		hosts          []v1alpha1.Hostname
		argument, want string
	}{
		"a listed name":               {named, "https://cdn.example.com/a", ""},
		"in capitals, with a port":    {named, "http://CDN.Example.COM:8080/a", ""},
		"with the dot of the root":    {named, "http://cdn.example.com./a", ""},
		"another name":                {named, "http://www.example.com:8080/a", "www.example.com"},
		"below a listed name":         {named, "http://a.cdn.example.com/", "a.cdn.example.com"},
		"below a wildcard":            {named, "http://a.b.example.org/", ""},
		"the name of the wildcard":    {named, "http://example.org/", "example.org"},
		"one that ends like it":       {named, "http://badexample.org/", "badexample.org"},
		"nothing before the dot":      {named, "http://.example.org/", ".example.org"},
		"a key, which has no host":    {named, "www.example.com/a", ""},
		"every name is served":        {nil, "http://www.example.com/a", ""},
		"a key that looks like a URL": {named, "ftp://www.example.com/a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refusedHost(tt.hosts, tt.argument); got != tt.want {
				t.Errorf("it refuses %q, want %q", got, tt.want)
			}
		})
	}
}
