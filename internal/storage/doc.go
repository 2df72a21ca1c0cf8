// Package storage decides what happens to the volumes, claims, placeholders and scouts of a CacheNode, and to the
// pods that use them. It is pure. [Plan] makes [Actions] from a [State], which contains what was read. Package
// executor carries out the actions. The next pass reads their effect into its State.
//
// It may import manifest and what manifest imports. For something else on which a plan depends, add a field to State,
// which package reader reads. For something else to do, add a field to Actions, which package executor carries out.
package storage
