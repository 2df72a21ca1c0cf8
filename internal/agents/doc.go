// Package agents keeps the last report of each pod's agent, and what the operator has sent to it. It reads reports in
// its own goroutines, so no pass over a CacheNode waits for an agent. It decides nothing.
//
// It imports agentapi, its client, and what they are made of. Another request to agents is a new [Calls]; another thing
// to know of an agent is a new field of [Observation].
package agents
