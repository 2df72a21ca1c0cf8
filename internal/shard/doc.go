// Package shard decides which disk of a pod, and which pod of a CacheNode, holds which part of the key space. The
// package is pure. The same members give the same plan in a review in git, in the operator and in the pod, on every
// architecture. The disks' plan and the pods' plan hash the key differently, so that each disk gets its share of the
// keys of each pod.
//
// The key space is divided into [Slots] slots. A slot is a hundredth of a percent, the resolution of nginx's
// split_clients. Weighted rendezvous hashing on names gives each slot to a member (Thaler and Ravishankar, 1998; the
// weighted form of Schindelhauer and Schomaker, 2005). Each member has a quota, which is a number of slots in
// proportion to its weight. If the best member for a slot has already filled its quota with better slots, the slot goes
// to the next best member. So each member gets exactly its quota. Adding, removing or reweighting a member moves only a
// few more slots than the minimum; TestMovement checks the number.
//
// nginx scans the ranges of a split_clients block in order, and 10,000 slots make thousands of ranges. [Plan.Tree]
// therefore arranges the ranges in two levels, with at most a hundred ranges in each block.
//
// All pods have the same weight, and they join and leave at the end of a sequence. [NewSequence] makes the plan of
// the pods.
//
// The package imports no other package of this project. If you need another question about the key space answered, add
// a method to Plan.
package shard
