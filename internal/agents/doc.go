// Package agents keeps the last report of each pod's agent and what the agent has done of the journal of purges. It
// reads reports and sends purges in its own goroutines, so no pass over a CacheNode waits for an agent. What follows
// from that is decided elsewhere.
//
// It imports agentapi, its client, and what they are made of. Another request to agents is a new [Calls]; another thing
// to know of an agent is a new field of [Observation], or of purged if it is about purges.
package agents
