package podinfo

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/layout"
)

func write(t *testing.T, name, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAnnotations(t *testing.T) {
	dir := write(t, layout.AnnotationsFile,
		`cachenode.io/revision="abc"`+"\n"+`a="two\nlines, a \" and a ="`+"\n"+"garbage\n"+`b=unquoted`)
	got, err := Annotations(dir)
	want := map[string]string{"cachenode.io/revision": "abc", "a": "two\nlines, a \" and a ="}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
	if _, err := Annotations(t.TempDir()); err == nil {
		t.Error("no file, no error")
	}
}

// FuzzAnnotations checks that the parser returns any annotation in the form in which it was before the kubelet quoted
// it.
func FuzzAnnotations(f *testing.F) {
	f.Add("a", "b")
	f.Add("a", "\"\n\\=")
	f.Fuzz(func(t *testing.T, before, value string) {
		text := "first=" + strconv.Quote(before) + "\nkey=" + strconv.Quote(value) + "\n"
		if got := parseAnnotations(text); got["key"] != value || got["first"] != before {
			t.Errorf("%q is read as %q", text, got)
		}
	})
}

func TestCores(t *testing.T) {
	for text, want := range map[string]int32{
		"1000": 1, "1001": 2, "100": 1, "3500\n": 4, "99999999": 1024, "": 0, "x": 0, "0": 0, "-5": 0,
	} {
		got, err := Cores(write(t, layout.CPULimitFile, text))
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d cores, error %v; want %d", text, got, err, want)
		}
	}
}

func TestNameServers(t *testing.T) {
	dir := write(t, "resolv.conf", "search a\nnameserver 10.96.0.10\nnameserver 10.96.0.11;x\nnameserver fd00::1\n")
	for name, tt := range map[string]struct{ named, want []string }{
		"of the pod":      {nil, []string{"10.96.0.10:53", "[fd00::1]:53"}},
		"of the operator": {[]string{"192.0.2.1", "[fd00::2]"}, []string{"192.0.2.1:53", "[fd00::2]:53"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NameServers(tt.named, filepath.Join(dir, "resolv.conf"))
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, server := range got {
				texts = append(texts, server.String())
			}
			if !slices.Equal(texts, tt.want) {
				t.Errorf("got %v, want %v", texts, tt.want)
			}
		})
	}
	if got, err := NameServers([]string{"dns.example.com"}, ""); err == nil {
		t.Errorf("a name: %v", got)
	}
}
