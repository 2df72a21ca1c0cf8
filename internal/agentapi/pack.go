package agentapi

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

const (
	// packFrom is the length in bytes from which Pack compresses a text. Shorter texts stay readable for people.
	packFrom = 64 << 10
	// maxUnpacked is the maximum length in bytes of a text that Unpack returns.
	maxUnpacked = 16 << 20
)

// Pack returns the text of a revision as the ConfigMap stores it. A long text is compressed (gzip, RFC 1952), because a
// ConfigMap has room for 1 MiB. Only revisions with routes are that long, and every agent that knows routes calls
// Unpack.
func Pack(text string) (stored []byte, isPacked bool) {
	if len(text) < packFrom {
		return []byte(text), false
	}
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	_, _ = to.Write([]byte(text)) // writing to memory does not fail
	_ = to.Close()
	return packed.Bytes(), true
}

// Unpack returns the text that Pack has stored. It returns an error for damaged data, and for a text that is longer
// than 16 MiB.
func Unpack(stored []byte) ([]byte, error) {
	if !bytes.HasPrefix(stored, []byte{0x1f, 0x8b}) { // RFC 1952, section 2.3.1
		return stored, nil
	}
	from, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, fmt.Errorf("revision: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(from, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("revision: %w", err)
	}
	if len(text) > maxUnpacked {
		return nil, fmt.Errorf("revision: has more than %d bytes", maxUnpacked)
	}
	return text, nil
}
