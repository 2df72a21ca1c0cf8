package purge

// Ended waits until the goroutines of all stores have ended.
func (p *Purger) Ended() { p.running.Wait() }
