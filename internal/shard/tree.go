package shard

import "fmt"

// Range is a part of a split_clients block.
type Range struct {
	// Width is the width of the range in hundredths of a percent. The last range has the width 0. It is written as "*",
	// which means the rest.
	Width int
	// Value is the value of nginx's variable for the keys in the range.
	Value string
}

// Split is a split_clients block: ranges in the order in which nginx scans them.
type Split []Range

// Tree is a plan in the form that nginx evaluates. Root selects the group of slots of a key, and the group selects
// the member. A plan with few ranges needs no groups. Groups is then empty, and Root selects the member at once.
type Tree struct {
	Root   Split
	Groups []Group
}

// Group is a part of the key space that has its own split_clients block.
type Group struct {
	// Name is the value by which Root refers to this group.
	Name string
	Split
}

// groupSlots is the number of slots in a group. It is the square root of Slots, so both levels have the same maximum
// length.
const groupSlots = 100

// Tree arranges the plan's ranges in two levels. So for a request, nginx scans some tens of ranges instead of
// thousands.
func (p Plan) Tree() Tree { return treeOf(p.Owner) }

// treeOf arranges the values of all slots in a tree.
func treeOf(value func(slot int) string) Tree {
	values := make([]string, Slots)
	for slot := range values {
		values[slot] = value(slot)
	}
	if flat := split(values, 0, Slots); len(flat) <= groupSlots {
		return Tree{Root: flat}
	}
	var t Tree
	for first := 0; first < Slots; first += groupSlots {
		group := Group{Name: groupName(first / groupSlots), Split: split(values, first, first+groupSlots)}
		t.Groups = append(t.Groups, group)
		t.Root = append(t.Root, Range{Width: groupSlots, Value: group.Name})
	}
	t.Root[len(t.Root)-1].Width = 0
	return t
}

// Ranges returns the number of ranges in all blocks together.
func (t Tree) Ranges() int {
	n := len(t.Root)
	for _, g := range t.Groups {
		n += len(g.Split)
	}
	return n
}

// split returns the block for the slots from first to end - 1. Adjacent slots with the same value share a range. Every
// key that reaches this block is in one of these slots. So the first range may begin at 0 instead of first, and the
// block needs no other range before it.
func split(values []string, first, end int) Split {
	var s Split
	for _, value := range values[first:end] {
		if n := len(s); n > 0 && s[n-1].Value == value {
			s[n-1].Width++
			continue
		}
		s = append(s, Range{Width: 1, Value: value})
	}
	s[0].Width += first
	s[len(s)-1].Width = 0
	return s
}

func groupName(i int) string { return fmt.Sprintf("g%02d", i) }
