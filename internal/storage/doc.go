// Package storage decides what happens to the volumes, claims, placeholders and scouts of a CacheNode, and to the pods
// that use them. It is pure: [Plan] turns what was read ([State]) into [Actions], and package executor carries them
// out. The next pass reads the effect of an action back into its State.
//
// It may import manifest and what it imports. What a plan depends on is a field of State, which package reader reads;
// what is to be done is a field of Actions, which package executor carries out.
package storage
