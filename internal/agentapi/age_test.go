package agentapi

import "testing"

func TestIsOldNginx(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"1.28.0": true, "1.28.99": true, "1.30.0": true, "1.30.3": true, "1.9.15": true, "0.8.55": true, "1.29.8": true,
		"1.31.0": true, "1.31.2": true, "1.30.3-1~bookworm": true,
		"1.30.4": false, "1.30.6": false, "1.30.10": false, "1.31.3": false, "1.31.10": false, "1.32.0": false,
		"1.30.4-1~bookworm": false, "2.0.0": false, "": false, "unknown": false, "1.30": false,
	} {
		if got := IsOldNginx(version); got != want {
			t.Errorf("%q: old is %t, want %t", version, got, want)
		}
	}
}

// TestRenderers checks that SecureRenderer is at least 1 and at most Renderer.
func TestRenderers(t *testing.T) {
	t.Parallel()
	if SecureRenderer < 1 || SecureRenderer > Renderer {
		t.Errorf("SecureRenderer is %d, want 1 to %d", SecureRenderer, Renderer)
	}
}
