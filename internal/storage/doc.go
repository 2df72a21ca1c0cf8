// Package storage decides what becomes of the volumes, claims, placeholders and scouts of a CacheNode, and of the pods that
// hold them. It is pure: [Plan] turns what was read ([State]) into [Actions]; package executor carries them out. What an
// action changes is in the state of the next pass.
package storage
