package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
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
	// fill is the gateway's location that asks that pod, unfilled the one if the pod has nothing. fillRenewed has that
	// pod ask the origin whether its expired copy is still valid.
	fill        = "@fill"
	unfilled    = "@unfilled"
	fillRenewed = "@fill_renewed"
	// formerHeader tells the gateway from which other disk of the pod an object can be filled, and what of the key the
	// gateway's own request does not show: the client's method, scheme and host. It never has the path: a decoded one
	// could end the header. formerVariable is its value, and formerDisk, formerMethod, formerScheme and formerHost are
	// its parts. fillFromDisk is the gateway's location that looks there, orFormer the location for what the other pod
	// lacks.
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
	// absentOrExpired is the variable for the stateHeader of a lookup on another disk of the pod: stateAbsent, or
	// EXPIRED, for which the gateway asks the origin.
	absentOrExpired = "$absent_or_expired"
	// renewedSeconds is how long an object that another pod has renewed is fresh.
	renewedSeconds = "$renewed_seconds"
	// lifetimeVariable is the X-Accel-Expires of the gateway's response.
	lifetimeVariable = "$accel_expires"
)

// fillMaps returns the maps that say where the object of a moved key comes from. Only an object that the disk does not
// have is filled from there; one that has expired is renewed by the origin. A POST is not, as its body could be sent
// only once.
func (k core) fillMaps() conf.Block {
	var block conf.Block
	if k.fillsFromPods() {
		block = append(block, k.fillFromPods()...)
	}
	if k.fillsFromDisks() {
		block = append(block, k.fillFromDisks()...)
	}
	if k.hasSlices() && k.answersAbsent() { // a cache asks for a slice by its range, and for a whole object without one
		block = append(block, conf.Map("$http_range", slicePrefix,
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~^bytes=[0-9]+-[0-9]+$"), conf.Expression("$http_range "))))
	}
	return block
}

// filledKey returns the key under which the previous owner or disk stores an object, or the requested slice of it.
func (s site) filledKey(key conf.Expression) conf.Expression {
	if s.hasSlices() {
		return slicePrefix + key
	}
	return key
}

// schemeInKey returns the variable for the scheme that a key has.
func (s site) schemeInKey() conf.Expression {
	if s.tellsScheme() {
		return schemeVariable
	}
	return "$scheme"
}

// fillFromPods returns the maps for keys that have moved to this pod.
func (k core) fillFromPods() conf.Block {
	from := conf.Block{conf.D("volatile"), conf.D("default", conf.Literal(""))}
	for _, pod := range k.others(k.Facts.Fleet.Previous) {
		name := fleet.Name(pod)
		from = append(from,
			conf.Row(conf.Expression("~.:MISS:GET:"+name+"$"), conf.Expression(name+" ")+k.schemeInKey()+" $host"))
	}
	renewed := conf.Map(statusInAnswer, renewedSeconds,
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~^(?:HIT|REVALIDATED|UPDATING|STALE)$"), conf.Literal(filledFor)),
		conf.Row(conf.Literal("BYPASS"), conf.Literal("0"))) // not to be stored
	return conf.Block{
		conf.Map(gatewayDisk+":$upstream_cache_status:$request_method:"+previousVariable, fillVariable, from...), renewed,
		part(fillInRequest, "~^", "[^ ]+", " ", fillPod), part(fillInRequest, "~^[^ ]+ ", "[^ ]+", " ", fillScheme),
		part(fillInRequest, "~^[^ ]+ [^ ]+ ", ".+", "$", fillHost),
	}
}

// fillFromDisks returns the maps for keys that have moved to another disk of this pod.
func (k core) fillFromDisks() conf.Block {
	from := conf.Block{
		conf.D("volatile"), conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression(`~^(?<same_disk>[^:]+):MISS:GET:\k<same_disk>$`), conf.Literal("")),
	}
	for _, d := range k.disks {
		from = append(from,
			conf.Row(conf.Expression("~.:MISS:GET:"+d.Name+"$"),
				conf.Expression(d.Name+" $request_method ")+k.schemeInKey()+" $host"))
	}
	block := append(conf.Block{
		conf.Map(gatewayDisk+":$upstream_cache_status:$request_method:"+previousDisk, formerVariable, from...),
	}, formerParts()...)
	block = append(block,
		conf.Map(formerDisk, orFormer,
			conf.Row(conf.Literal(""), conf.Literal(unfilled)), conf.D("default", conf.Literal(fillFromDisk))))
	if !k.isSharded() {
		block = append(block, secondsOfFills())
	}
	return block
}

// formerParts returns the maps for what formerHeader says, and for what its reader asks the gateway in turn.
func formerParts() conf.Block {
	return conf.Block{
		part(formerInRequest, "~^", "[^ ]+", " ", formerDisk),
		part(formerInRequest, "~^[^ ]+ ", "[^ ]+", " ", formerMethod),
		part(formerInRequest, "~^[^ ]+ [^ ]+ ", "[^ ]+", " ", formerScheme),
		part(formerInRequest, "~^[^ ]+ [^ ]+ [^ ]+ ", ".+", "$", formerHost),
		ifExpired(absentOrExpired, stateExpired),
	}
}

// ifExpired returns the map for the stateHeader of a lookup: state for an expired copy, stateAbsent without a copy.
func ifExpired(variable conf.Expression, state conf.Literal) conf.Directive {
	return conf.Map("$upstream_cache_status", variable,
		conf.D("volatile"), conf.D("default", conf.Literal(stateAbsent)),
		conf.Row(conf.Literal("EXPIRED"), state))
}

// unlessSliced returns the stateHeader of a lookup: the variable, or stateAbsent with slices. An expired slice counts
// as absent, because the origin would be asked for the whole object in its place.
func (s site) unlessSliced(variable string) conf.Argument {
	if s.hasSlices() {
		return conf.Literal(stateAbsent)
	}
	return conf.Expression(variable)
}

// asStored makes a location answer with a stored response as it is, whatever range is asked for. A first slice can be a
// whole object, from an origin without ranges, and a part of it must not be stored in its place.
func (s site) asStored() conf.Block {
	if !s.hasSlices() {
		return nil
	}
	return conf.Block{conf.D("max_ranges", conf.Literal("0"))}
}

// part returns the map for a part of a header that says where an object comes from, and what is before and after it.
func part(header, before, pattern, after, variable conf.Expression) conf.Directive {
	name := variable[1:] + "_part"
	return conf.Map(header, variable,
		conf.D("default", conf.Literal("")),
		conf.Row(before+"(?<"+name+">"+pattern+")"+after, "$"+name))
}

// fills is the gateway's part that gets objects from the pods and disks that had them.
type fills struct{ gateway }

// locations returns the locations that ask the pod or the disk that had the key. The response is stored as it is stored
// there, with the headers that the gateway added then.
func (f fills) locations() conf.Block {
	if !f.fills() {
		return nil
	}
	var block conf.Block
	if f.fillsFromPods() {
		block = append(block, f.askPod())
		if !f.hasSlices() {
			block = append(block, f.haveRenewed())
		}
	}
	if f.fillsFromDisks() {
		block = append(block, f.lookOnDisk())
	}
	return append(block, location(unfilled,
		append(slices.Concat(f.logsOfFills(agentapi.TagUnfilled), f.orRejected(), f.orAgain(againVariable), f.notes()),
			conf.D("recursive_error_pages", conf.OnOff(true)), conf.D("proxy_pass", f.backend.url()))...))
}

// askPod asks a pod for a fresh copy.
func (f fills) askPod() conf.Directive {
	// Also between two reads of a body, which a hard disk may take long for.
	block := conf.Block{conf.D("proxy_read_timeout", conf.Time(3*f.hopTimeout()))}
	if !f.hasSlices() {
		block = append(block, conf.D("error_page", conf.Literal(old), conf.Literal("="), conf.Literal(fillRenewed)))
	}
	return f.fromPod(fill, lookupName+"${"+fillPod[1:]+"}_"+diskInRequest, block...)
}

// haveRenewed asks a pod as if a client had. It renews its expired copy, for which the origin sends no body. So the
// question may take as long as one to the origin.
func (f fills) haveRenewed() conf.Directive {
	return f.fromPod(fillRenewed, peerName+"${"+fillPod[1:]+"}",
		conf.D("proxy_read_timeout", conf.Time(f.LongestFetch()+connectTimeout)),
		addHeader("X-Accel-Expires", conf.Expression(renewedSeconds)))
}

// fromPod returns a location that fills from another pod.
func (f fills) fromPod(name, upstream string, more ...conf.Directive) conf.Directive {
	block := conf.Block{
		f.toPeer(upstream),
		setHeader("Host", conf.Expression(fillHost)), setHeader("Connection", conf.Literal("")),
		setHeader(schemeHeader, conf.Expression(fillScheme)), setHeader(askHeader, conf.Literal(askFill)),
	}
	block = append(block, withoutOwn()...)
	block = append(block,
		conf.D("proxy_connect_timeout", conf.Time(connectTimeout)),
		conf.D("proxy_next_upstream", conf.Literal("error"), conf.Literal("timeout")),
		conf.D("proxy_intercept_errors", conf.OnOff(true)),
		conf.D("recursive_error_pages", conf.OnOff(true)))
	next := conf.Argument(conf.Literal(unfilled))
	if f.fillsFromDisks() {
		next = conf.Expression(orFormer)
	}
	return location(name,
		slices.Concat(block, more, f.peerClientTLS(), f.filled(next, agentapi.TagFilled))...)
}

// lookOnDisk looks an object up on the disk that had the key. The gateway itself answers for what is absent there, and
// asks the origin whether an expired copy is still valid.
func (f fills) lookOnDisk() conf.Directive {
	block := conf.Block{
		conf.D("proxy_pass", f.entry.url()),
		setHeader("Host", conf.Expression("$http_host")),
		setHeader("Connection", conf.Literal("")),
		setHeader(stateHeader, f.unlessSliced(absentOrExpired)),
		conf.D("proxy_cache_revalidate", conf.OnOff(true)),
		// What the origin sends in place of an expired copy is stored on neither disk if it may not be stored.
		conf.D("proxy_ignore_headers", accelHeaders("X-Accel-Expires")...),
		conf.D("proxy_no_cache",
			conf.Expression(variesVariable), conf.Expression(sharedVariable), conf.Expression(agedVariable),
			conf.Expression(partialVariable), conf.Expression("$upstream_http_x_accel_redirect")),
		conf.D("proxy_intercept_errors", conf.OnOff(true)),
		addHeader("X-Accel-Expires", conf.Expression(fillSeconds)),
	}
	block = append(block, redirectAlone()) // the copied headers come as they are stored
	block = append(block, f.cacheOf(formerDisk, f.filledKey(f.keyInGateway()))...)
	return location(fillFromDisk,
		slices.Concat(block, f.asStored(), f.diskIO(formerDisk),
			f.filled(conf.Literal(unfilled), agentapi.TagFilledFromDisk))...)
}

// filled returns what the locations have in common from which objects are filled. next is the location for what is
// absent, and tag that of the reports.
func (f fills) filled(next conf.Argument, tag string) conf.Block {
	// Instead of the headers that the gateway hides.
	hidden := hides(append(ownNames(), sharedHeader)...)
	return slices.Concat(passed(append(f.gatewayPasses(), conf.Literal("Date"))), hidden, conf.Block{
		// Also what the other pod's server answers before it looks at its locations.
		conf.D("error_page", append(conf.Literals(absent, "400", "414", "421", "500", "502", "503", "504", "505", "="),
			next)...),
		// Instead of the headers that it adds.
		conf.D("add_header", conf.Literal(sharedHeader), conf.Literal("")),
	}, silent(), f.logsOfFills(tag))
}

// answersAbsent returns true if some requests want the gateway to answer that an object is absent, instead of fetching
// it.
func (s site) answersAbsent() bool { return s.isSharded() || s.fillsFromDisks() }

// toFill makes the gateway's location leave what can be filled, and what is not to be fetched.
func (f fills) toFill() conf.Block {
	if !f.answersAbsent() && !f.renewsInBackground() {
		return nil
	}
	block := conf.Block{
		conf.B("if",
			[]conf.Argument{conf.Expression("(" + stateInRequest), conf.Literal("="), conf.Literal(stateAbsent + ")")},
			conf.D("return", conf.Literal(absent))),
	}
	if f.isSharded() {
		block = append(block, conf.B("if",
			[]conf.Argument{conf.Expression("(" + stateInRequest), conf.Literal("="), conf.Literal(stateOld + ")")},
			conf.D("return", conf.Literal(old))))
	}
	if f.fillsFromPods() {
		block = append(block,
			conf.D("error_page", conf.Literal("419"), conf.Literal("="), conf.Literal(fill)),
			ifSet(fillInRequest, conf.D("return", conf.Literal("419"))))
	}
	if f.fillsFromDisks() {
		block = append(block,
			conf.D("error_page", conf.Literal("420"), conf.Literal("="), conf.Literal(fillFromDisk)),
			ifSet(formerDisk, conf.D("return", conf.Literal("420"))))
	}
	return block
}
