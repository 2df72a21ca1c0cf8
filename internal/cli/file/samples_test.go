package file_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/cli/file"
)

// TestSamplesOfTeams checks that the samples with Gateways are accepted as they are, and that nothing but the teams'
// Services is missing in them.
func TestSamplesOfTeams(t *testing.T) {
	t.Parallel()
	const samples = "../../../config/samples/"
	objects, err := file.ReadAll([]string{samples + "gateways.yaml", samples + "teams.yaml"}, "default", os.Stdin)
	if err != nil {
		t.Fatal(err)
	}
	result, warnings := objects.Routes(objects.CacheNodes[0], "cluster.local")
	if diff := cmp.Diff([]string{
		"Service team-a/origin is not in the files: it is assumed to have the ports to which routes refer",
		"Service team-b/origin is not in the files: it is assumed to have the ports to which routes refer",
	}, warnings); diff != "" {
		t.Errorf("what is assumed (-want +got):\n%s", diff)
	}
	if problems := result.Problems(); len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	if n := len(result.Table.Routes); n != 2 {
		t.Errorf("%d routes are served, want 2", n)
	}
}
