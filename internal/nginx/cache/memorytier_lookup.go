package cache

import (
	"slices"
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// publicLocations returns the locations of the tier in the server for clients.
func (m tier) publicLocations() conf.Block {
	return conf.Block{
		m.lookup(), m.renewed(), m.toPromoter(), m.toRenewal(), m.unsatisfiable(rangeInMemory, agentapi.TagMemory),
	}
}

// lookup returns the location that answers from memory, and counts the requests for each object.
func (m tier) lookup() conf.Directive {
	count := []conf.Argument{"zone=" + m.keyedZone("popular"), conf.Literal("nodelay")}
	if burst := ptr.Deref(m.Spec.MemoryTier.MinUses, 1) - 1; burst > 0 { // nginx refuses a burst of 0
		count = append(count, conf.Literal("burst="+strconv.Itoa(int(burst))))
	} else {
		count = count[:1]
	}
	block := conf.Block{
		conf.D("limit_req", count...),
		conf.D("limit_req_dry_run", conf.OnOff(true)),
	}
	return location("/", append(block, m.fromMemory(conf.Expression(elseVariable))...)...)
}

// renewed returns the location that answers with an expired copy from memory while the promoter renews the copy.
func (m tier) renewed() conf.Directive {
	block := conf.Block{conf.D("auth_request", conf.Literal(renew))}
	return location(renewing, append(block, m.fromMemory(m.place())...)...)
}

// fromMemory makes a location answer from memory, or pass the request on to the location elsewhere.
func (m tier) fromMemory(elsewhere conf.Argument) conf.Block {
	open := effective.TierFilesOpen(m.Spec, m.Facts.OpenFiles)
	block := conf.Block{
		conf.D("error_page", conf.Literal("500"), conf.Literal("502"), conf.Literal("504"), conf.Literal("="), elsewhere),
		conf.D("error_page", conf.Literal("416"), conf.Literal("="), conf.Literal(rangeInMemory)), // see noSuchRange
		conf.D("recursive_error_pages", conf.OnOff(true)),
		quiet(),
		conf.D("proxy_pass", conf.Literal("http://"+nowhere)),
		conf.D("proxy_cache", conf.Literal(memoryZone)),
		conf.D("proxy_cache_key", m.key()),
		conf.D("proxy_cache_use_stale", conf.Literal("updating")),
		conf.D("proxy_force_ranges", conf.OnOff(true)),
		// Header and body leave in one call, see docs/adr/0018.
		conf.D("sendfile", conf.OnOff(false)),
		conf.D("output_buffers", conf.Literal("1"), conf.Size(effective.TierBuffer)),
		conf.D("open_file_cache", "max="+conf.Int(open), conf.Literal("inactive=2s")),
		conf.D("open_file_cache_valid", conf.Literal("2s")),
	}
	block = slices.Concat(block, m.awaitsBody(), m.rangesAsTheyAre(), conf.Block{falls(conf.Literal(""))}, m.asksNothing(),
		m.ownControl(), m.logs(agentapi.TagMemory))
	return append(block, m.answerHeaders(conf.Expression("$upstream_cache_status"), conf.Literal("memory"), "memory")...)
}

// quiet keeps a location from logging that there is no upstream, or that the tier has no room. Neither needs attention.
func quiet() conf.Directive {
	return conf.D("error_log", conf.Literal("/dev/null"), conf.Literal("crit"))
}

// mirrored sends a copy of each request of a location to the location promote, in the background.
func mirrored() conf.Block {
	return conf.Block{conf.D("mirror", conf.Literal(promote)), conf.D("mirror_request_body", conf.OnOff(false))}
}
