package resolver

import (
	"slices"

	"github.com/miekg/dns"
)

// result is the outcome of a question to the name server with the index server.
type result struct {
	server int
	answer *dns.Msg
	err    error
}

// poll holds the outcomes of the questions of one exchange. Its slices are indexed by name server.
type poll struct {
	ended   int        // the number of questions with an outcome
	open    []int      // the number of questions without an outcome
	denials []*dns.Msg // answers without addresses
}

// add adds an outcome. It returns the answer that counts, or nil if there is none yet. asked is the number of questions
// that were sent so far, in the order of the name servers.
func (p *poll) add(got result, asked int) *dns.Msg {
	p.ended++
	p.open[got.server]--
	if got.err == nil {
		if !denies(got.answer) {
			return got.answer
		}
		p.denials[got.server] = got.answer
	}
	for i := range min(asked, len(p.open)) {
		if p.denials[i] != nil {
			return p.denials[i]
		}
		if p.open[i] > 0 {
			return nil
		}
	}
	return nil
}

// denial returns the answer without addresses of the earliest name server that gave one, or err if there is none.
func (p *poll) denial(err error) (*dns.Msg, error) {
	for _, answer := range p.denials {
		if answer != nil {
			return answer, nil
		}
	}
	return nil, err
}

// denies returns true for an answer that neither contains an address nor refers to another name.
func denies(answer *dns.Msg) bool {
	return answer.Rcode == dns.RcodeNameError || !slices.ContainsFunc(answer.Answer, func(rr dns.RR) bool {
		return rr.Header().Rrtype == dns.TypeA || rr.Header().Rrtype == dns.TypeCNAME
	})
}
