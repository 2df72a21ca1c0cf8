package status

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// maxMessage is the maximum length of a condition's message, in bytes.
const maxMessage = 4096

// Listed joins the first five items into a text for a condition, and adds the number of the other items.
func Listed(items []string) string { return listedBy(items, "; ") }

func listedBy(items []string, between string) string {
	const most = 5
	if more := len(items) - most; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(items[:most], between), between, more)
	}
	return strings.Join(items, between)
}

// truncated shortens a text to at most length bytes, without cutting a character.
func truncated(text string, length int) string {
	if len(text) <= length {
		return text
	}
	text = text[:length]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text
}

// DescribeMovement describes a movement: the share of the keys, the number of bytes, and the disks between which the
// keys move.
func DescribeMovement(m *v1alpha1.KeyMovement) string {
	var moves []string
	for _, move := range m.Moves {
		moves = append(moves, fmt.Sprintf("%s from %s to %s", move.Share, move.From, move.To))
	}
	return fmt.Sprintf("the edit of the disks moves %s of the keys, %s (%s)", m.Share, m.Bytes, Listed(moves))
}

// Movement returns a movement in the form of the API; nil if nothing moves. cached is the total size of each disk's
// caches in all pods, in bytes.
func Movement(m shard.Movement, cached map[string]int64) *v1alpha1.KeyMovement {
	if m.Slots == 0 {
		return nil
	}
	movement := &v1alpha1.KeyMovement{Name: m.Name, Share: shard.Percent(m.Slots), Bytes: Size(m.Bytes(cached))}
	for _, move := range m.Moves {
		movement.Moves = append(movement.Moves, v1alpha1.KeyMove{
			From: move.From, To: move.To, Share: shard.Percent(move.Slots),
		})
	}
	return movement
}

// Size formats a number of bytes for a message to a user.
func Size(bytes int64) string {
	switch {
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", bytes>>10)
	case bytes < 1<<30:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes < 1<<40:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.1f TiB", float64(bytes)/(1<<40))
}
