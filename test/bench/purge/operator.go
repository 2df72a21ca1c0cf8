package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/bench/cachepod"
)

// nothing is a target that selects no object.
var nothing = purge.Target{Tags: []string{"none"}}

// operator sends purges to agents through the agents' API, as CacheNode's operator does. It keeps the journal in
// memory.
type operator struct {
	client  *agentclient.Client
	agents  []string
	journal purge.Journal
	// sent is the last place in the journal that all agents have applied.
	sent int64
}

func (j job) operator() (*operator, error) {
	config, err := pki.Client(j.Certificates, cachepod.Server)
	if err != nil {
		return nil, err
	}
	o := &operator{client: agentclient.New(config)}
	for _, s := range j.Servers {
		o.agents = append(o.agents, s.Agent)
	}
	return o, nil
}

func (o *operator) add(t purge.Target) purge.Rule {
	return o.journal.Add(time.Now(), purge.Rule{UID: "00000000-0000-0000-0000-000000000000", Name: "bench", Target: t})
}

// seal sets the end of a rule to the present time.
func (o *operator) seal(r purge.Rule) { o.journal.Seal(time.Now(), r.Number, time.Now()) }

// send sends all rules that have changed since the last call to all agents at the same time. It waits until all
// agents have applied these rules.
func (o *operator) send(ctx context.Context) error {
	update := purge.Update{
		Floor: o.journal.Floor, Head: o.journal.Head, Rules: o.journal.Since(o.sent), After: o.sent,
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, agent := range o.agents {
		group.Go(func() error { return o.tell(ctx, agent, update) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	o.sent = o.journal.Head
	return nil
}

// tell sends an update to an agent. It repeats the call until the agent has applied the update.
func (o *operator) tell(ctx context.Context, agent string, update purge.Update) error {
	for {
		done, err := o.client.Purge(ctx, agent, update)
		switch {
		case err != nil:
			return err
		case done.Applied >= update.Head:
			return nil
		case done.Head < update.Head:
			return fmt.Errorf("%s knows the journal up to place %d; place %d was sent", agent, done.Head, update.Head)
		}
	}
}
