package cache

import (
	_ "embed"
	"time"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// Script is the content of ScriptFile, a program for nginx's module ngx_http_js_module. Its functions run for responses
// of the origin, and for requests that look for an object in slices. They do not run for a HIT of a whole object.
//
//go:embed script.js
var Script string

// Module is the path of the module to which Facts.Scripts refers. The stock image and Debian have the module there.
const Module = "/usr/lib/nginx/modules/ngx_http_js_module.so"

// ScriptFile returns the path at which Script must be before nginx reads a configuration that was rendered with
// Facts.Scripts.
func ScriptFile() string { return layout.ScriptFile(digest(Script)) }

// memories are the dictionaries of the script: their names and sizes, the type of their values, and how long they
// keep an entry. The first dictionary contains an entry for each object that is fetched.
var memories = []struct {
	zone, kind string
	lasts      time.Duration
}{{"notes:4m", "number", notedFor}, {"tags:1m", "string", mixedFor}, {"mixed:1m", "number", mixedFor}}

// hasScript returns true if the configuration runs the script.
func (s site) hasScript() bool { return s.looksAtResponses() || s.comparesExpires() }

// looksAtResponses returns true if the script looks at each response of the origin.
func (s site) looksAtResponses() bool {
	return s.hitsForMiss() || s.noticesMixed() || s.removesCookies()
}

// TrialOfScripts returns a configuration for a trial. If nginx accepts it, Facts.Scripts is true. ScriptFile must exist
// before the trial.
func TrialOfScripts() string {
	text, _ := conf.Write(conf.Block{ // all strings in it are constants of this package, so there is no error
		loadModule(), conf.D("pid", conf.Literal(layout.PIDFile)), conf.B("events", nil),
		conf.B("http", nil, append(temporaryPaths(), engine()...)...),
	})
	return text
}

func loadModule() conf.Directive { return conf.D("load_module", conf.Literal(Module)) }

// engine returns the directives that run the script. The engine njs needs 9 KiB for each request in progress. The
// engine QuickJS, which will replace njs in nginx, needs 240 KiB.
func engine() conf.Block {
	block := conf.Block{conf.D("js_engine", conf.Literal("njs"))}
	for _, m := range memories {
		block = append(block, conf.D("js_shared_dict_zone",
			conf.Literal("zone="+m.zone), conf.Literal("type="+m.kind), "timeout="+conf.Seconds(m.lasts),
			conf.Literal("evict")))
	}
	return append(block,
		conf.D("js_import", conf.Literal("cachenode"), conf.Literal("from"), conf.Literal(ScriptFile())))
}

// scriptVariables returns the variables that the script defines.
func (s site) scriptVariables() (block conf.Block) {
	if s.hitsForMiss() {
		block = append(block, conf.D("js_set", conf.Expression(notedVariable), s.function("isUnstorable")))
	}
	if s.noticesMixed() {
		block = append(block, conf.D("js_set", conf.Expression(mixedVariable), s.function("isMixed")))
	}
	if s.comparesExpires() {
		block = append(block, conf.D("js_set", conf.Expression(expiresIn), conf.Literal("cachenode.expiresIn")))
	}
	return block
}

// notes makes a location of the gateway call the script for each response.
func (s site) notes() conf.Block {
	if !s.looksAtResponses() {
		return nil
	}
	return conf.Block{conf.D("js_header_filter", s.function("note"))}
}

// function returns a function of the script.
func (s site) function(name string) conf.Literal {
	if s.ofRoutes {
		name += routesSuffix
	}
	return conf.Literal("cachenode." + name)
}
