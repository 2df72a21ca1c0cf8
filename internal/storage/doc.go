// Package storage decides what happens to the volumes, claims, placeholders and scouts of a CacheNode, and to the pods
// that use them. It is pure. [Plan] returns [Actions] for a [State], which contains the objects that the pass has read.
// Package executor carries out the actions. The next pass reads the result of these actions into its own State.
//
// It may import manifest and what manifest imports. If a plan depends on something new, add a field to State, and let
// package reader fill the field. If a plan must do something new, add a field to Actions, and let package executor
// carry it out.
package storage
