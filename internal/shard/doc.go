// Package shard decides which disk of a pod, and which pod of a CacheNode, holds which part of the key space. It is
// pure: the same members give the same plan in a review in git, in the operator and in the pod, on every
// architecture. The plan of the disks and the plan of the pods hash the key differently, so that each disk gets its
// share of the keys of each pod.
//
// The key space is divided into [Slots] slots. A slot is a hundredth of a percent, the resolution of nginx's
// split_clients. Weighted rendezvous hashing on names gives each slot to a member (Thaler and Ravishankar, 1998; the
// weighted form of Schindelhauer and Schomaker, 2005). Each member has a quota: the number of slots that is in
// proportion to its weight. If the best member for a slot already has all slots of its quota, the slot goes to the
// next best member. So each member gets exactly its quota. Adding, removing or reweighting a member moves only a few
// more slots than the minimum; TestMovement checks the number.
//
// nginx scans the ranges of a split_clients block in order, and 10,000 slots make thousands of ranges. [Plan.Tree]
// therefore arranges the ranges in two levels, with at most a hundred ranges in each block.
//
// All pods have the same weight, and they join and leave at the end of a sequence. [NewSequence] makes the plan of
// the pods.
//
// It imports no other package of this project. For another question about the key space, add a method to Plan.
package shard
