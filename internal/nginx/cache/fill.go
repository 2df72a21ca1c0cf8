package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// fillHeader tells the gateway from which pod an object can be fetched, and by which scheme and host that pod knows
	// the object. fillVariable is the value of the header. fillPod, fillScheme and fillHost are the parts of that value.
	fillHeader    = "X-CacheNode-Fill"
	fillInRequest = "$http_x_cachenode_fill"
	fillVariable  = "$fill_from"
	fillPod       = "$fill_pod"
	fillScheme    = "$fill_scheme"
	fillHost      = "$fill_host"
	// fill is the gateway's location that asks the pod in fillPod. unfilled is the location for objects that the asked
	// pod does not have. fillRenewed is the location that makes the asked pod check with the origin whether its expired
	// copy is still valid.
	fill        = "@fill"
	unfilled    = "@unfilled"
	fillRenewed = "@fill_renewed"
	// formerHeader tells the gateway from which other disk of the pod an object can be copied. It also contains the
	// parts of the key that the gateway's own request does not show: the client's method, scheme and host. It never
	// contains the path, because a decoded path could end the header. formerVariable is the value of the header.
	// formerDisk, formerMethod, formerScheme and formerHost are the parts of that value. fillFromDisk is the gateway's
	// location that looks on that disk. orFormer contains the location for objects that the other pod lacks.
	formerHeader    = "X-CacheNode-Former"
	formerInRequest = "$http_x_cachenode_former"
	formerVariable  = "$former"
	formerDisk      = "$former_disk"
	formerMethod    = "$former_method"
	formerScheme    = "$former_scheme"
	formerHost      = "$former_host"
	fillFromDisk    = "@fill_from_disk"
	orFormer        = "$or_former"
	// slicePrefix is the beginning of the key of a slice, in front of the key of the object; "" for a whole object.
	slicePrefix = "$slice_prefix"
	// A lookup that finds no fresh copy sends the gateway stateAbsent or stateOld in stateHeader, and fetches nothing.
	// stateOld means that the copy has expired. The gateway answers stateAbsent with the status absent, and stateOld
	// with the status old. No origin sends these statuses. absentOrOld is the variable with one of the two values.
	stateAbsent = "ABSENT"
	stateOld    = "OLD"
	absentOrOld = "$absent_or_old"
	old         = "471"
	// absentOrExpired is the variable with the value of stateHeader for a lookup on another disk of the pod. The value is
	// stateAbsent or EXPIRED. For EXPIRED, the gateway asks the origin.
	absentOrExpired = "$absent_or_expired"
	// renewedSeconds is the number of seconds for which an object is fresh after another pod has renewed it.
	renewedSeconds = "$renewed_seconds"
	// ownLifetime is the X-Accel-Expires of a response.
	ownLifetime = "$upstream_http_x_accel_expires"
)

// fillMaps returns the maps for filling. To fill an object of a moved key means to copy the object from the pod or
// disk that had the key before. An object is filled only if its new disk does not have it; an expired object is
// renewed from the origin. An object of a POST is not filled, because the body of the request could be sent only
// once.
func (k core) fillMaps() conf.Block {
	var block conf.Block
	if k.fillsFromPods() {
		block = append(block, k.fillFromPods()...)
	}
	if k.fillsFromDisks() {
		block = append(block, k.fillFromDisks()...)
	}
	if k.hasSlices() && k.answersAbsent() { // a request has a range if it is for a slice, and none for a whole object
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

// schemeInKey returns the variable for the scheme in a key.
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
		conf.D("default", conf.Expression(ownLifetime)),
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

// formerParts returns the maps for the parts of formerHeader, and the map for absentOrExpired.
func formerParts() conf.Block {
	return conf.Block{
		part(formerInRequest, "~^", "[^ ]+", " ", formerDisk),
		part(formerInRequest, "~^[^ ]+ ", "[^ ]+", " ", formerMethod),
		part(formerInRequest, "~^[^ ]+ [^ ]+ ", "[^ ]+", " ", formerScheme),
		part(formerInRequest, "~^[^ ]+ [^ ]+ [^ ]+ ", ".+", "$", formerHost),
		ifExpired(absentOrExpired, stateExpired),
	}
}

// ifExpired returns the map for the stateHeader of a lookup: state for an expired copy, and stateAbsent if there is
// no copy.
func ifExpired(variable conf.Expression, state conf.Literal) conf.Directive {
	return conf.Map("$upstream_cache_status", variable,
		conf.D("volatile"), conf.D("default", conf.Literal(stateAbsent)),
		conf.Row(conf.Literal("EXPIRED"), state))
}

// unlessSliced returns the value that a lookup sends in stateHeader: the given variable without slices, and stateAbsent
// with slices. An expired slice counts as absent, because its renewal would ask the origin for the whole object.
func (s site) unlessSliced(variable string) conf.Argument {
	if s.hasSlices() {
		return conf.Literal(stateAbsent)
	}
	return conf.Expression(variable)
}

// asStored makes a location answer with the whole stored response, even if the request has a range. If the origin
// does not support ranges, a first slice can be the whole object. A part of that object must not be stored in place
// of the whole object.
func (s site) asStored() conf.Block {
	if !s.hasSlices() {
		return nil
	}
	return conf.Block{conf.D("max_ranges", conf.Literal("0"))}
}

// part returns the map that extracts one part of fillHeader or formerHeader. before and after match the text around
// the part.
func part(header, before, pattern, after, variable conf.Expression) conf.Directive {
	name := variable[1:] + "_part"
	return conf.Map(header, variable,
		conf.D("default", conf.Literal("")),
		conf.Row(before+"(?<"+name+">"+pattern+")"+after, "$"+name))
}

// fills is the part of the gateway that gets objects from the pods and disks that had their keys.
type fills struct{ gateway }

// locations returns the locations that ask the pod or the disk that had the key. The response is stored as it was
// stored there, with the headers that the gateway added at that time.
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

// askPod returns the location that asks a pod for a fresh copy.
func (f fills) askPod() conf.Directive {
	// This timeout also applies between two reads of a body, and a hard disk may need long for a read.
	block := conf.Block{conf.D("proxy_read_timeout", conf.Time(3*f.hopTimeout()))}
	if !f.hasSlices() {
		block = append(block, conf.D("error_page", conf.Literal(old), conf.Literal("="), conf.Literal(fillRenewed)))
	}
	return f.fromPod(fill, f.lookupName()+"${"+fillPod[1:]+"}_"+diskInRequest, nil, block...)
}

// haveRenewed returns the location that asks a pod as a client would. That pod then asks the origin whether its
// expired copy is still valid, and the origin sends no body if it is. So the request may take as long as a request to
// the origin.
func (f fills) haveRenewed() conf.Directive {
	return f.fromPod(fillRenewed, f.peerName()+"${"+fillPod[1:]+"}", []string{"X-Accel-Expires"},
		conf.D("proxy_read_timeout", conf.Time(f.LongestFetch()+connectTimeout)),
		addHeader("X-Accel-Expires", conf.Expression(renewedSeconds)))
}

// fromPod returns a location that fills from another pod. It does not pass the headers in without on.
func (f fills) fromPod(name, upstream string, without []string, more ...conf.Directive) conf.Directive {
	block := conf.Block{
		f.toPeer(upstream),
		setHeader("Host", conf.Expression(fillHost)), setHeader("Connection", conf.Literal("")),
		setHeader(schemeHeader, conf.Expression(fillScheme)), setHeader(askHeader, conf.Literal(askFill)),
	}
	block = slices.Concat(block, withoutOwn(), f.tellsRoute())
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
		slices.Concat(block, more, f.peerClientTLS(), f.filled(next, agentapi.TagFilled, without...))...)
}

// lookOnDisk returns the location that looks an object up on the disk that had the key. If the object is absent
// there, the gateway itself answers. If the copy there has expired, the gateway asks the origin whether it is still
// valid.
func (f fills) lookOnDisk() conf.Directive {
	block := conf.Block{
		conf.D("proxy_pass", f.entry.url()),
		setHeader("Host", conf.Expression("$http_host")),
		setHeader("Connection", conf.Literal("")),
		setHeader(stateHeader, f.unlessSliced(absentOrExpired)),
		conf.D("proxy_cache_revalidate", conf.OnOff(true)),
		// The origin may send a response in place of an expired copy. If that response may not be stored, neither disk
		// stores it.
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
			f.filled(conf.Literal(unfilled), agentapi.TagFilledFromDisk, "X-Accel-Expires"))...)
}

// filled returns the directives that the locations for filling have in common. next is the location for objects that
// are absent. tag is the tag of the reports to the agent. The headers in without are not passed on: a copy has another
// lifetime than the object had when it was stored.
func (f fills) filled(next conf.Argument, tag string, without ...string) conf.Block {
	// This list replaces the list of headers that the gateway hides.
	hidden := hides(append(ownNames(), sharedHeader)...)
	return slices.Concat(passed(append(f.gatewayPasses(without...), conf.Literal("Date"))), hidden, conf.Block{
		// The list also contains the statuses that the other pod's server sends before it chooses a location.
		conf.D("error_page", append(conf.Literals(absent, "400", "414", "421", "500", "502", "503", "504", "505", "="),
			next)...),
		// This replaces the headers that the gateway adds.
		conf.D("add_header", conf.Literal(sharedHeader), conf.Literal("")),
	}, silent(), f.logsOfFills(tag))
}

// answersAbsent returns true if some requests expect the gateway to answer that an object is absent, and not to fetch
// the object.
func (s site) answersAbsent() bool { return s.isSharded() || s.fillsFromDisks() }

// toFill makes the gateway's first location pass on requests for objects that can be filled, and answer requests for
// objects that must not be fetched.
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
