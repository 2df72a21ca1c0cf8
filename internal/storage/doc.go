// Package storage decides what becomes of the volumes and claims of a CacheNode: which volumes there are, which claims go,
// which nodes are lost, which disks are missing. It is pure: what it knows was read by the controllers, which carry its
// decisions out.
package storage
