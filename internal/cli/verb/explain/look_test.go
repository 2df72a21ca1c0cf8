package explain

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// state is the number of the file with the disk's generation in TestLook.
const state = 6

// TestLook runs the script on files as nginx writes them.
func TestLook(t *testing.T) {
	validTo := time.Unix(1700000000, 0)
	file := func(rest string) []byte {
		var data []byte
		for _, n := range []uint64{5, uint64(validTo.Unix()), 30, 3600} {
			data = binary.LittleEndian.AppendUint64(data, n)
		}
		return append(data, "\x00\n\x00KEY: a\nHTTP/1.1 206 Partial Content\r\n"+rest+"\r\n\r\nbody"...)
	}
	slice := file("Content-Range: bytes 1048576-2097151/5000000")
	plain := header{validTo, 30 * time.Second, time.Hour}
	for name, tt := range map[string]struct {
		files map[int][]byte
		want  found
	}{
		"nothing": {nil, found{}},
		"whole":   {map[int][]byte{0: file("")}, found{bytes: int64(len(file(""))), header: plain}},
		"memory":  {map[int][]byte{1: file("")}, found{memory: plain}},
		"slices":  {map[int][]byte{3: slice, 4: slice}, found{2 * int64(len(slice)), 2, 5000000, plain, header{}, 0}},
		"a generation": {
			map[int][]byte{0: file(""), state: []byte(`{"applied":3,"generation":12,"lastGeneration":12}`)},
			found{bytes: int64(len(file(""))), header: plain, generation: 12},
		},
		"a cover": {
			map[int][]byte{state: []byte(`{"applied":3,"generation":12,"cover":14,"lastGeneration":14}`)},
			found{generation: 14},
		},
		"a cover alone": {
			map[int][]byte{state: []byte(`{"applied":3,"cover":14,"lastGeneration":14}`)}, found{generation: 14},
		},
		"no generation": {map[int][]byte{state: []byte(`{"applied":3}`)}, found{}},
		"an empty":      {map[int][]byte{0: {}}, found{}},
		"both": {
			map[int][]byte{0: file(""), 2: slice},
			found{int64(len(slice) + len(file(""))), 1, 5000000, plain, header{}, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			var paths []string
			for n := range state + 1 {
				path := filepath.Join(folder, "a b"+string(rune('0'+n)))
				if content, ok := tt.files[n]; ok {
					if err := os.WriteFile(path, content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				paths = append(paths, path)
			}
			script := exec.Command("sh", "-c", look, "sh", paths[state])
			script.Stdin = strings.NewReader(strings.Join(paths[:state], "\n") + "\n")
			script.Stderr = os.Stderr
			out, err := script.Output()
			if err != nil {
				t.Fatal(err)
			}
			all := cmp.AllowUnexported(found{}, header{})
			if diff := cmp.Diff(tt.want, parse(out), all, cmpopts.EquateApproxTime(0)); diff != "" {
				t.Errorf("(-want +got)\n%s\n%s", diff, out)
			}
		})
	}
}

func TestCandidates(t *testing.T) {
	if got := candidates(v1alpha1.CachePolicy{}, "disk1", "a", 0); len(got) != 2 {
		t.Errorf("without slices, %q", got)
	}
	sliced := v1alpha1.CachePolicy{Slice: &v1alpha1.Slice{Size: resource.MustParse("1Mi")}}
	if got := candidates(sliced, "disk1", "a", 12); len(got) != 2+mostSlices {
		t.Errorf("with slices, %d paths", len(got))
	}
}

// FuzzParse checks that nothing that a pod prints breaks the parser.
func FuzzParse(f *testing.F) {
	f.Add([]byte("file 2 99\nheader 2 0500\nlength 0 12\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		if got := parse(out); got.slices > int64(len(out)) {
			t.Errorf("%d slices", got.slices)
		}
	})
}
