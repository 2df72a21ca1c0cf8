package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestWriteIntoANewFolder checks that Write creates a missing folder, so that a long benchmark does not lose its
// result.
func TestWriteIntoANewFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "dist", "results")
	if err := Write(folder, "control", 7); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "control.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d Document[int]
	if err := json.Unmarshal(text, &d); err != nil || d.Result != 7 || d.Date == "" || d.Kernel == "" {
		t.Errorf("%s: %v", text, err)
	}
}
