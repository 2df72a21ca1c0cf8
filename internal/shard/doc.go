// Package shard decides which disk of a pod, and which pod of a CacheNode, holds which part of the key space. It is
// pure: the same members give the same plan in git review, in the operator and in the pod, on every architecture. The
// plan of the disks and the plan of the pods hash the key differently, so that each disk has its share of each pod's
// keys.
//
// The key space is cut into [Slots] slots of a hundredth of a percent, the resolution of nginx's split_clients. Each
// slot goes to a member by weighted rendezvous hashing on names (Thaler and Ravishankar, 1998; the weighted form of
// Schindelhauer and Schomaker, 2005), under exact quotas: a member gets as many slots as its weight is worth, no more.
// If its best member has no room, a slot goes to its next best. Shares are therefore exact. Adding, removing or
// reweighting a member moves hardly more slots than it must, see TestMovement for how many.
//
// nginx scans the ranges of a split_clients block in order, and 10,000 slots make thousands of ranges. [Plan.Tree]
// therefore arranges them in two levels, of at most a hundred ranges each.
//
// Pods are equal, and join and leave at the end of a sequence, so their plan is made by [NewSequence] instead.
//
// It imports no other package. Another question about the key space is a method of Plan.
package shard
