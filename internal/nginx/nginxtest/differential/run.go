package differential

import (
	"fmt"
	"slices"
	"strings"
)

// Player carries out the steps of a case. The origin carries out its own part of a step; see [URL.Do].
type Player struct {
	// URL is the case's URL at the origin.
	URL *URL
	// Do sends a request and returns the response. Expire makes all copies of the object expire, and Purge removes them.
	Do            func(Request) Response
	Expire, Purge func()
	// Settle waits until the given number of copies of an answer are stored, or until it is clear that the answer will not
	// be stored. This wait is necessary because nginx stores a response after the client has received it.
	Settle func(answer string, copies int)
	// IsKnown returns true for a known fault. The case goes on after such a fault.
	IsKnown func(Fault) bool

	history History
	// last is the last response to a request that a cache may answer. lastRequest is that request.
	last        Response
	lastRequest Request
	story       strings.Builder
}

// Fault is a response that is not allowed.
type Fault struct {
	// Err says why the response is not allowed. Story contains the events of the URL so far, one line for each event.
	Err   error
	Story string
	// Request and Response are the last request and the last response of the story.
	Request  Request
	Response Response
}

// Begin begins a case.
func (p *Player) Begin(way Way, c Case) {
	p.history.Way = way
	for _, r := range c.Resources {
		p.tell("%s", r)
	}
}

// Tell adds an event to the story.
func (p *Player) Tell(event string) { p.tell("-- %s", event) }

func (p *Player) tell(format string, values ...any) {
	fmt.Fprintf(&p.story, "  "+format+"\n", values...)
}

// Play carries out steps and checks each response. It returns the first fault that is not known; nil if there is none.
func (p *Player) Play(steps []Step) *Fault {
	for _, step := range steps {
		if step.Action == Ask {
			if f := p.ask(step.Request); f != nil && !p.IsKnown(*f) {
				return f
			}
			continue
		}
		p.settle()
		p.URL.Do(step)
		switch step.Action {
		case Expire:
			p.Expire()
			p.history.Expire()
		case Purge:
			p.Purge()
			p.history.Purge()
		case Ask, Change, Fail, Mend:
		}
		p.Tell(step.String())
	}
	return nil
}

// ask sends a request and checks the response.
func (p *Player) ask(q Request) *Fault {
	p.tell("%s", q)
	r := p.Do(q)
	before := len(p.history.Exchanges)
	p.history.Exchanges = p.URL.Exchanges()
	for _, e := range p.history.Exchanges[before:] {
		p.tell("%s", e)
	}
	p.tell("%s", r)
	if !q.isPast() && r.Header.Get(AnswerHeader) != "" {
		p.last, p.lastRequest = r, q
	}
	if err := p.history.Check(q, r); err != nil {
		return &Fault{err, p.story.String(), q, r}
	}
	return nil
}

// settle waits until the answer in the last response is stored. If that response was a MISS but did not come from the
// origin, another pod or disk stores the answer too.
func (p *Player) settle() {
	answer, copies := p.last.Header.Get(AnswerHeader), 1
	if p.last.Header.Get("X-Cache") == "MISS" && !p.history.asked(p.lastRequest) {
		copies = 2
	}
	for _, e := range slices.Backward(p.history.Exchanges) {
		if e.Of != nil && e.storable() == nil && fmt.Sprint(e.Answer) == answer {
			p.Settle(answer, copies)
			return
		}
	}
}
