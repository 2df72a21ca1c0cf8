// Package controllers has the reconcilers of CacheNodes and CachePurges: they gather facts, call the pure packages,
// apply their results and report. Only cmd/manager imports it.
//
// It may import everything but the agent and the plugin. A pass over a CacheNode has a file for each phase: observe,
// keep, want, certify, roll, stand, report. What is decided belongs into a pure package below, and a new fact for it
// into the phase that observes. An event goes into package status.
package controllers
