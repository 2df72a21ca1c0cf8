// Package controllers contains the reconcilers of CacheNodes and CachePurges. They gather facts, call the pure
// packages, apply the results and report. Only cmd/manager imports this package.
//
// It may import everything except the agent and the plugin. A pass over a CacheNode has one file for each phase:
// observe, keep, want, certify, roll, stand, report. Decisions belong in a pure package that this package imports. A
// new fact for a decision belongs in the phase observe. Events belong in package status.
package controllers
