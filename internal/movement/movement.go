// Package movement says what an edit of the disks does to the keys: how many go from which disk to which. It is pure.
package movement

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// Movement is what changes between two sets of disks.
type Movement struct {
	// Name identifies where the keys are before and afterwards; "" where they are the same.
	Name  string
	Moves []shard.Move
	// Slots is the sum of the moves, Least what any plan must move, both in hundredths of a percent.
	Slots, Least int
	// From and To are the plans.
	From, To shard.Plan
}

// Between compares two sets of disks.
func Between(before, after []v1alpha1.Disk) Movement {
	m := Movement{From: shard.NewPlan(tuning.ShardDisks(before)), To: shard.NewPlan(tuning.ShardDisks(after))}
	if m.Moves = m.From.Moves(m.To); len(m.Moves) > 0 {
		m.Name = name(m.From, m.To)
	}
	for _, move := range m.Moves {
		m.Slots += move.Slots
	}
	for _, disk := range m.From.Disks() {
		m.Least += max(m.From.Share(disk)-m.To.Share(disk), 0)
	}
	return m
}

// name is of both plans: what is acknowledged once is not acknowledged when the same disks come another time from others.
func name(from, to shard.Plan) string {
	sum := sha256.Sum256([]byte(from.Hash() + to.Hash()))
	return hex.EncodeToString(sum[:])[:12]
}

// Bytes is what the moving keys take, if each disk's files are spread evenly over its keys. used is what each disk of the
// first set holds, over all pods.
func (m Movement) Bytes(used map[string]int64) int64 {
	var sum float64
	for _, move := range m.Moves {
		sum += m.MoveBytes(move, used)
	}
	return int64(sum)
}

// MoveBytes is that of one move.
func (m Movement) MoveBytes(move shard.Move, used map[string]int64) float64 {
	share := m.From.Share(move.From)
	if share == 0 {
		return 0
	}
	return float64(used[move.From]) * float64(move.Slots) / float64(share)
}

// Status is the movement in the terms of the API; nil if nothing moves.
func (m Movement) Status(used map[string]int64) *v1alpha1.KeyMovement {
	if m.Slots == 0 {
		return nil
	}
	s := &v1alpha1.KeyMovement{Name: m.Name, Share: Share(m.Slots), Bytes: Size(m.Bytes(used))}
	for _, move := range m.Moves {
		s.Moves = append(s.Moves, v1alpha1.KeyMove{From: move.From, To: move.To, Share: Share(move.Slots)})
	}
	return s
}

// Share writes hundredths of a percent.
func Share(hundredths int) string { return fmt.Sprintf("%d.%02d%%", hundredths/100, hundredths%100) }

// Size writes bytes for people.
func Size(bytes int64) string {
	switch {
	case bytes < 1<<30:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes < 1<<40:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.1f TiB", float64(bytes)/(1<<40))
}
