package cache

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// fillHeader tells the gateway from which pod an object can be filled, and the scheme and name by which that pod
	// knows it. fillVariable is its value, and fillPod, fillScheme and fillHost are its parts.
	fillHeader    = "X-CacheNode-Fill"
	fillInRequest = "$http_x_cachenode_fill"
	fillVariable  = "$fill_from"
	fillPod       = "$fill_pod"
	fillScheme    = "$fill_scheme"
	fillHost      = "$fill_host"
	// fill is the gateway's location that asks that pod, unfilled the one if the pod has nothing. fillRenewed has that pod
	// ask the origin whether its expired copy is still valid.
	fill        = "@fill"
	unfilled    = "@unfilled"
	fillRenewed = "@fill_renewed"
	// formerHeader tells the gateway from which other disk of the pod an object can be filled, and what of the key the
	// gateway's own request does not show: the client's method, scheme and host. It never has the path: a decoded one
	// could end the header. formerVariable is its value, and formerDisk, formerMethod, formerScheme and formerHost are its
	// parts. fillFromDisk is the gateway's location that looks there, orFormer the location for what the other pod lacks.
	formerHeader    = "X-CacheNode-Former"
	formerInRequest = "$http_x_cachenode_former"
	formerVariable  = "$former"
	formerDisk      = "$former_disk"
	formerMethod    = "$former_method"
	formerScheme    = "$former_scheme"
	formerHost      = "$former_host"
	fillFromDisk    = "@fill_from_disk"
	orFormer        = "$or_former"
	// slicePrefix comes before the key of an object that is filled: what the key of a slice begins with.
	slicePrefix = "$slice_prefix"
	// A lookup that finds no fresh copy sends the gateway one of two values of stateHeader, and fetches nothing. The
	// gateway answers stateAbsent with the status absent, and stateOld, for an expired copy, with the status old. No
	// origin sends these statuses. absentOrOld is the variable for one of the two values.
	stateAbsent = "ABSENT"
	stateOld    = "OLD"
	absentOrOld = "$absent_or_old"
	old         = "471"
	// absentOrExpired is the variable for the stateHeader of a lookup on another disk of the pod: stateAbsent, or EXPIRED,
	// for which the gateway asks the origin.
	absentOrExpired = "$absent_or_expired"
	// renewedSeconds is how long an object that another pod has renewed is fresh.
	renewedSeconds = "$renewed_seconds"
	// lifetimeVariable is the X-Accel-Expires of the gateway's response.
	lifetimeVariable = "$accel_expires"
)

// fillMaps say where an object comes from whose key has moved. Only an object that the disk does not have is filled;
// one that has expired is renewed by the origin. A POST is not, as its body could be sent only once.
func (r renderer) fillMaps() conf.Block {
	var block conf.Block
	if r.fillsFromPods() {
		block = append(block, r.fillFromPods()...)
	}
	if r.fillsFromDisks() {
		block = append(block, r.fillFromDisks()...)
	}
	if r.hasSlices() && r.answersAbsent() { // a cache asks for a slice by its range, and for a whole object without one
		block = append(block, conf.B("map",
			[]conf.Argument{conf.Expression("$http_range"), conf.Expression(slicePrefix)},
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~^bytes=[0-9]+-[0-9]+$"), conf.Expression("$http_range "))))
	}
	return block
}

// filledKey is the key under which the previous owner or disk stores an object, or the requested slice of it.
func (r renderer) filledKey(key conf.Expression) conf.Expression {
	if r.hasSlices() {
		return slicePrefix + key
	}
	return key
}

// schemeInKey is the variable for the scheme that a key has.
func (r renderer) schemeInKey() conf.Expression {
	if r.tellsScheme() {
		return schemeVariable
	}
	return "$scheme"
}

// fillFromPods are the maps for keys that have moved to this pod.
func (r renderer) fillFromPods() conf.Block {
	from := conf.B("map",
		[]conf.Argument{
			conf.Expression(gatewayDisk + ":$upstream_cache_status:$request_method:" + previousVariable),
			conf.Expression(fillVariable),
		},
		conf.D("volatile"), conf.D("default", conf.Literal("")))
	for _, pod := range r.others(r.Facts.Fleet.Previous) {
		name := fleet.Name(pod)
		from.Block = append(from.Block,
			conf.Row(conf.Expression("~.:MISS:GET:"+name+"$"), conf.Expression(name+" ")+r.schemeInKey()+" $host"))
	}
	renewed := conf.B("map", []conf.Argument{conf.Expression(statusInAnswer), conf.Expression(renewedSeconds)},
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~^(?:HIT|REVALIDATED|UPDATING|STALE)$"), conf.Literal(filledFor)),
		conf.Row(conf.Literal("BYPASS"), conf.Literal("0"))) // not to be stored
	return conf.Block{
		from, renewed,
		part(fillInRequest, "~^", "[^ ]+", " ", fillPod), part(fillInRequest, "~^[^ ]+ ", "[^ ]+", " ", fillScheme),
		part(fillInRequest, "~^[^ ]+ [^ ]+ ", ".+", "$", fillHost),
	}
}

// fillFromDisks are the maps for keys that have moved to another disk of this pod.
func (r renderer) fillFromDisks() conf.Block {
	from := conf.B("map",
		[]conf.Argument{
			conf.Expression(gatewayDisk + ":$upstream_cache_status:$request_method:" + previousDisk),
			conf.Expression(formerVariable),
		},
		conf.D("volatile"), conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression(`~^(?<same_disk>[^:]+):MISS:GET:\k<same_disk>$`), conf.Literal("")))
	for _, d := range r.disks {
		from.Block = append(from.Block,
			conf.Row(conf.Expression("~.:MISS:GET:"+d.Name+"$"),
				conf.Expression(d.Name+" $request_method ")+r.schemeInKey()+" $host"))
	}
	block := append(conf.Block{from}, formerParts()...)
	block = append(block,
		conf.B("map", []conf.Argument{conf.Expression(formerDisk), conf.Expression(orFormer)},
			conf.Row(conf.Literal(""), conf.Literal(unfilled)), conf.D("default", conf.Literal(fillFromDisk))))
	if !r.isSharded() {
		block = append(block, secondsOfFills())
	}
	return block
}

// formerParts are the maps for what formerHeader says, and for what its reader asks the gateway in turn.
func formerParts() conf.Block {
	return conf.Block{
		part(formerInRequest, "~^", "[^ ]+", " ", formerDisk),
		part(formerInRequest, "~^[^ ]+ ", "[^ ]+", " ", formerMethod),
		part(formerInRequest, "~^[^ ]+ [^ ]+ ", "[^ ]+", " ", formerScheme),
		part(formerInRequest, "~^[^ ]+ [^ ]+ [^ ]+ ", ".+", "$", formerHost),
		ifExpired(absentOrExpired, stateExpired),
	}
}

// ifExpired is the map for the stateHeader of a lookup: state for an expired copy, stateAbsent without a copy.
func ifExpired(variable, state string) conf.Directive {
	return conf.B("map", []conf.Argument{conf.Expression("$upstream_cache_status"), conf.Expression(variable)},
		conf.D("volatile"), conf.D("default", conf.Literal(stateAbsent)),
		conf.Row(conf.Literal("EXPIRED"), conf.Literal(state)))
}

// unlessSliced is the stateHeader of a lookup: the variable, or stateAbsent with slices. An expired slice counts as
// absent, because the origin would be asked for the whole object in its place.
func (r renderer) unlessSliced(variable string) conf.Argument {
	if r.hasSlices() {
		return conf.Literal(stateAbsent)
	}
	return conf.Expression(variable)
}

// asStored has a location answer with a stored response as it is, whatever range is asked for. A first slice can be a
// whole object, from an origin without ranges, and a part of it must not be stored in its place.
func (r renderer) asStored() conf.Block {
	if !r.hasSlices() {
		return nil
	}
	return conf.Block{conf.D("max_ranges", conf.Literal("0"))}
}

// part is the map for a part of a header that says where an object comes from, and what is before and after it.
func part(header conf.Expression, before, pattern, after, variable string) conf.Directive {
	name := variable[1:] + "_part"
	return conf.B("map", []conf.Argument{header, conf.Expression(variable)},
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression(before+"(?<"+name+">"+pattern+")"+after), conf.Expression("$"+name)))
}

// fillLocations ask the pod or the disk that had the key. The response is stored as it is stored there, with the
// headers that the gateway added then.
func (r renderer) fillLocations() conf.Block {
	if !r.fills() {
		return nil
	}
	var block conf.Block
	if r.fillsFromPods() {
		block = append(block, r.askPod())
		if !r.hasSlices() {
			block = append(block, r.haveRenewed())
		}
	}
	if r.fillsFromDisks() {
		block = append(block, r.lookOnDisk())
	}
	return append(block, conf.B("location", conf.Literals(unfilled),
		append(slices.Concat(r.logsOfFills(agentapi.TagUnfilled), r.orRejected(), r.orAgain(againVariable), r.notes()),
			conf.D("recursive_error_pages", conf.OnOff(true)), conf.D("proxy_pass", r.origin(upstreamName)))...))
}

// askPod asks a pod for a fresh copy.
func (r renderer) askPod() conf.Directive {
	// Also between two reads of a body, which a hard disk may take long for.
	block := conf.Block{conf.D("proxy_read_timeout", conf.Time(3*r.hopTimeout()))}
	if !r.hasSlices() {
		block = append(block, conf.D("error_page", conf.Literal(old), conf.Literal("="), conf.Literal(fillRenewed)))
	}
	return r.fromPod(fill, lookupName+"${"+fillPod[1:]+"}_"+diskInRequest, block...)
}

// haveRenewed asks a pod as if a client had. It renews its expired copy, for which the origin sends no body. So the
// question may take as long as one to the origin.
func (r renderer) haveRenewed() conf.Directive {
	return r.fromPod(fillRenewed, peerName+"${"+fillPod[1:]+"}",
		conf.D("proxy_read_timeout", conf.Time(effective.LongestFetch(r.Spec.Origin)+connectTimeout)),
		conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Expression(renewedSeconds), conf.Literal("always")))
}

// fromPod is a location that fills from another pod.
func (r renderer) fromPod(location, upstream string, more ...conf.Directive) conf.Directive {
	set := func(name string, value conf.Argument) conf.Directive {
		return conf.D("proxy_set_header", conf.Literal(name), value)
	}
	block := conf.Block{
		r.toPeer(upstream),
		set("Host", conf.Expression(fillHost)), set("Connection", conf.Literal("")),
		set(schemeHeader, conf.Expression(fillScheme)), set(askHeader, conf.Literal(askFill)),
	}
	block = append(block, withoutOwn()...)
	block = append(block,
		conf.D("proxy_connect_timeout", conf.Time(connectTimeout)),
		conf.D("proxy_next_upstream", conf.Literal("error"), conf.Literal("timeout")),
		conf.D("proxy_intercept_errors", conf.OnOff(true)),
		conf.D("recursive_error_pages", conf.OnOff(true)))
	next := conf.Argument(conf.Literal(unfilled))
	if r.fillsFromDisks() {
		next = conf.Expression(orFormer)
	}
	return conf.B("location", conf.Literals(location),
		slices.Concat(block, more, r.peerClientTLS(), r.filled(next, agentapi.TagFilled))...)
}

// lookOnDisk looks an object up on the disk that had the key. The gateway itself answers for what is absent there, and
// asks the origin whether an expired copy is still valid.
func (r renderer) lookOnDisk() conf.Directive {
	block := conf.Block{
		conf.D("proxy_pass", conf.Literal("http://"+gatewayUpstream)),
		conf.D("proxy_set_header", conf.Literal("Host"), conf.Expression("$http_host")),
		conf.D("proxy_set_header", conf.Literal("Connection"), conf.Literal("")),
		conf.D("proxy_set_header", conf.Literal(stateHeader), r.unlessSliced(absentOrExpired)),
		conf.D("proxy_cache_revalidate", conf.OnOff(true)),
		// What the origin sends in place of an expired copy is stored on neither disk if it may not be stored.
		conf.D("proxy_ignore_headers", accelHeaders("X-Accel-Expires")...),
		conf.D("proxy_no_cache",
			conf.Expression(variesVariable), conf.Expression(sharedVariable), conf.Expression(agedVariable),
			conf.Expression(partialVariable), conf.Expression("$upstream_http_x_accel_redirect")),
		conf.D("proxy_intercept_errors", conf.OnOff(true)),
		conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Expression(fillSeconds), conf.Literal("always")),
	}
	block = append(block, redirectAlone()) // the copied headers come as they are stored
	block = append(block, r.cacheOf(formerDisk, r.filledKey(r.keyInGateway()))...)
	return conf.B("location", conf.Literals(fillFromDisk),
		slices.Concat(block, r.asStored(), r.diskIO(formerDisk),
			r.filled(conf.Literal(unfilled), agentapi.TagFilledFromDisk))...)
}

// filled is what the locations have in common from which objects are filled. next is the location for what is absent,
// and tag that of the reports.
func (r renderer) filled(next conf.Argument, tag string) conf.Block {
	// Instead of the headers that the gateway hides.
	hidden := hides(append(ownNames(), sharedHeader)...)
	return slices.Concat(passed(append(r.gatewayPasses(), conf.Literal("Date"))), hidden, conf.Block{
		// Also what the other pod's server answers before it looks at its locations.
		conf.D("error_page", append(conf.Literals(absent, "400", "414", "421", "500", "502", "503", "504", "505", "="),
			next)...),
		// Instead of the headers that it adds.
		conf.D("add_header", conf.Literal(sharedHeader), conf.Literal("")),
	}, silent(), r.logsOfFills(tag))
}

// answersAbsent is true if some requests want the gateway to answer that an object is absent, instead of fetching it.
func (r renderer) answersAbsent() bool { return r.isSharded() || r.fillsFromDisks() }

// toFill has the gateway's location leave what can be filled, and what is not to be fetched.
func (r renderer) toFill() conf.Block {
	if !r.answersAbsent() && !r.renewsInBackground() {
		return nil
	}
	block := conf.Block{
		conf.B("if",
			[]conf.Argument{conf.Expression("(" + stateInRequest), conf.Literal("="), conf.Literal(stateAbsent + ")")},
			conf.D("return", conf.Literal(absent))),
	}
	if r.isSharded() {
		block = append(block, conf.B("if",
			[]conf.Argument{conf.Expression("(" + stateInRequest), conf.Literal("="), conf.Literal(stateOld + ")")},
			conf.D("return", conf.Literal(old))))
	}
	if r.fillsFromPods() {
		block = append(block,
			conf.D("error_page", conf.Literal("419"), conf.Literal("="), conf.Literal(fill)),
			conf.B("if", []conf.Argument{conf.Expression("(" + fillInRequest + ")")}, conf.D("return", conf.Literal("419"))))
	}
	if r.fillsFromDisks() {
		block = append(block,
			conf.D("error_page", conf.Literal("420"), conf.Literal("="), conf.Literal(fillFromDisk)),
			conf.B("if", []conf.Argument{conf.Expression("(" + formerDisk + ")")}, conf.D("return", conf.Literal("420"))))
	}
	return block
}

// lifetime is the X-Accel-Expires of the gateway's response: the origin's own, but for two cases.
//
// nginx stores a response with it whatever Cache-Control says. A response that is for one client alone, or for nobody
// to keep, is not stored, so the gateway leaves the header out.
//
// If the origin says that a copy is valid and not for how long, the copy is valid once more for what cache.valid has
// for it. nginx would take that from the stored response, and for one that was filled it is some seconds.
func (r renderer) lifetime() (maps, header conf.Block) {
	const ok = v1alpha1.StatusCode(200)
	given := conf.Expression("$status:$upstream_http_x_accel_expires$upstream_http_expires:" + controlVariable)
	lifetimes := conf.B("map", []conf.Argument{given, conf.Expression(lifetimeVariable)},
		conf.D("default", conf.Expression("$upstream_http_x_accel_expires")),
		conf.Row(conf.Expression("~*:.*(?:no-store|private)"), conf.Literal("")))
	i := slices.IndexFunc(r.Spec.Cache.Valid, func(v v1alpha1.Validity) bool { return slices.Contains(v.Status, ok) })
	if r.answersAbsent() && i >= 0 {
		seconds := strings.TrimSuffix(string(conf.Seconds(effective.Duration(r.Spec.Cache.Valid[i].For))), "s")
		lifetimes.Block = append(lifetimes.Block,
			conf.Row(conf.Expression("~*^304::(?!.*(?:max-age|no-cache))"), conf.Literal(seconds)))
	}
	return conf.Block{lifetimes}, conf.Block{
		conf.D("add_header", conf.Literal("X-Accel-Expires"), conf.Expression(lifetimeVariable), conf.Literal("always")),
	}
}
