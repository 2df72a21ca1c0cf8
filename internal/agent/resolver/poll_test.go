package resolver

import (
	"errors"
	"testing"

	"github.com/miekg/dns"
)

// TestPoll checks which of several outcomes counts.
func TestPoll(t *testing.T) {
	t.Parallel()
	found, denied := &dns.Msg{Answer: []dns.RR{record(t, "a. 5 A 192.0.2.1")}}, &dns.Msg{}
	alias := &dns.Msg{Answer: []dns.RR{record(t, "a. 5 CNAME b.")}}
	noName := &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}}
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		asked    int
		outcomes []result // no outcome before the last one decides
		want     *dns.Msg
	}{
		"an address":                          {3, []result{{2, found, nil}}, found},
		"an alias":                            {3, []result{{2, alias, nil}}, alias},
		"no name, of the first":               {3, []result{{0, noName, nil}}, noName},
		"no name, of the second":              {3, []result{{1, noName, nil}}, nil},
		"no address, of the second":           {3, []result{{1, denied, nil}}, nil},
		"then the first fails":                {3, []result{{1, noName, nil}, {0, nil, failed}}, noName},
		"after the first has failed":          {3, []result{{0, nil, failed}, {1, noName, nil}}, noName},
		"then the first finds":                {3, []result{{1, noName, nil}, {0, found, nil}}, found},
		"of the third, then the second finds": {3, []result{{2, noName, nil}, {1, found, nil}}, found},
		"two, then the first fails": {
			3, []result{{2, noName, nil}, {1, denied, nil}, {0, nil, failed}}, denied,
		},
		"the first is asked again, and is silent": {4, []result{{0, nil, failed}, {1, noName, nil}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := poll{open: make([]int, 3), denials: make([]*dns.Msg, 3)}
			for i := range tt.asked {
				p.open[i%3]++
			}
			last := len(tt.outcomes) - 1
			for _, r := range tt.outcomes[:last] {
				if got := p.add(r, tt.asked); got != nil {
					t.Fatalf("%v decides", r)
				}
			}
			if got := p.add(tt.outcomes[last], tt.asked); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
