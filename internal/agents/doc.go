// Package agents knows the agents of all pods: what each said last, and what it was told. Its own goroutines read them,
// so no pass over a CacheNode waits for an agent. It decides nothing.
//
// It imports agentapi, its client, and what they are made of. Another request to agents is a new [Calls]; another thing
// to know of an agent is a new field of [Observation].
package agents
