// Package agents stores the last report of each pod's agent, and how far the agent has carried out the journal of
// purges. It reads reports and sends purges in its own goroutines, so no pass over a CacheNode waits for an agent.
// Other packages decide what follows from the reports and answers.
//
// It may import agentapi, agentclient, purge, pki, layout and naming. For another request to agents, add a function
// to [Calls]. For another fact about an agent, add a field to [Observation], or to purged if the fact concerns
// purges.
package agents
