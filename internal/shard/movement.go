package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Movement is what an edit of the disks does to the keys: how many move from which disk to which.
type Movement struct {
	// Name identifies the movement: a hash of both plans; "" if no keys move. An acknowledged movement is thus not
	// acknowledged again if the same disks follow on other ones.
	Name  string
	Moves []Move
	// Slots is the sum of the moves, and Least is what any plan must move. Both are in hundredths of a percent.
	Slots, Least int
	// From and To are the plans.
	From, To Plan
}

// Between compares two plans.
func Between(from, to Plan) Movement {
	m := Movement{From: from, To: to, Moves: from.Moves(to)}
	if len(m.Moves) > 0 {
		sum := sha256.Sum256([]byte(from.Hash() + to.Hash()))
		m.Name = hex.EncodeToString(sum[:])[:12]
	}
	for _, move := range m.Moves {
		m.Slots += move.Slots
	}
	for _, disk := range from.Members() {
		m.Least += max(from.Share(disk)-to.Share(disk), 0)
	}
	return m
}

// Bytes returns the size of what the moving keys have on disks, if each disk's files are spread evenly over its keys.
// used is the bytes that each disk of the first plan holds, over all pods.
func (m Movement) Bytes(used map[string]int64) int64 {
	var sum float64
	for _, move := range m.Moves {
		sum += m.MoveBytes(move, used)
	}
	return int64(sum)
}

// MoveBytes returns the part of one move in Bytes.
func (m Movement) MoveBytes(move Move, used map[string]int64) float64 {
	share := m.From.Share(move.From)
	if share == 0 {
		return 0
	}
	return float64(used[move.From]) * float64(move.Slots) / float64(share)
}

// Percent writes hundredths of a percent, such as 33.34%.
func Percent(hundredths int) string { return fmt.Sprintf("%d.%02d%%", hundredths/100, hundredths%100) }
