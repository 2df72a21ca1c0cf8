package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Movement describes how an edit of the disks moves keys: how many keys move from each disk to each other disk.
type Movement struct {
	// Name identifies the movement. It is a hash of both plans; "" if no keys move. So an acknowledgement of a movement is
	// not valid for an edit that starts from other disks, even if both edits lead to the same disks.
	Name  string
	Moves []Move
	// Slots is the sum of all moves. Least is the smallest possible sum with the shares of the new plan. Both are in
	// hundredths of a percent.
	Slots, Least int
	// From and To are the plans before and after the edit.
	From, To Plan
}

// Between returns the movement between two plans.
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

// Bytes returns the number of bytes of cache files that belong to the keys that move. It assumes that the files of a
// disk are spread evenly over the keys of the disk. used contains the bytes that each disk of the plan From holds in
// all pods together.
func (m Movement) Bytes(used map[string]int64) int64 {
	var sum float64
	for _, move := range m.Moves {
		sum += m.MoveBytes(move, used)
	}
	return int64(sum)
}

// MoveBytes returns the part of Bytes that belongs to one move.
func (m Movement) MoveBytes(move Move, used map[string]int64) float64 {
	share := m.From.Share(move.From)
	if share == 0 {
		return 0
	}
	return float64(used[move.From]) * float64(move.Slots) / float64(share)
}

// Percent returns hundredths of a percent as a text, such as 33.34%.
func Percent(hundredths int) string { return fmt.Sprintf("%d.%02d%%", hundredths/100, hundredths%100) }
