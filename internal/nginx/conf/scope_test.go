package conf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScope(t *testing.T) {
	t.Parallel()
	block := Block{
		Map("$host:$other", "$kind",
			D("default", Expression("$fallback")),
			Row(Expression(`~^(?<label>[^.]*)[.]\k<label>(?&label)$`), Expression("$label"))),
		B("split_clients", []Argument{Expression("$kind"), Expression("$half")}, D("*", Literal("a"))),
		D("js_set", Expression("$noted"), Literal("script.noted")),
		B("server", nil,
			D("set", Expression("$kind_of"), Expression("${kind}s$half-$noted$uri")),
			B("if", []Argument{Expression("($kind_of)")}, D("return", Literal("kind"))),
		).WithComment("kept"),
		D("log_format", Literal("agent"), Expression("$kind agent")),
		D("limit_req_zone", Expression("$kind"), Literal("zone=often:1m"), Literal("rate=1r/s")),
		D("limit_conn_zone", Expression("$uri"), Literal("zone=many:1m")),
		B("upstream", Literals("gateway"),
			D("server", Literal("unix:/run/gateway.sock")), D("zone", Literal("peers"))),
		Map("$uri", "$url", D("default", Literal("http://gateway")), Row(Literal("agent"), Literal("http://origin"))),
		B("server", nil,
			D("listen", Literal("unix:/run/gateway.sock")),
			D("listen", Literal("8080")),
			D("access_log", Literal("agent"), Literal("agent")),
			D("access_log", Literal("agent"), Literal("other")),
			D("limit_req", Literal("zone=often"), Literal("burst=2")),
			D("limit_req", Literal("zone=elsewhere")),
			D("limit_conn", Literal("many"), Literal("1")),
			D("proxy_pass", Expression("http://gateway$request_uri")),
			D("proxy_pass", Literal("http://gateways")),
			D("proxy_pass", Literal("http://unix:/run/gateway.sock")),
		),
	}
	before, err := Write(block)
	if err != nil {
		t.Fatal(err)
	}
	want := `map $host:$other $kind_2 {
    default $fallback;
    "~^(?<label_2>[^.]*)[.]\\k<label_2>(?&label_2)$" $label_2;
}
split_clients $kind_2 $half_2 {
    * a;
}
js_set $noted_2 script.noted;
# kept
server {
    set $kind_of_2 "${kind_2}s$half_2-$noted_2$uri_2";
    if ($kind_of_2) {
        return kind;
    }
}
log_format agent_2 "$kind_2 agent";
limit_req_zone $kind_2 zone=often_2:1m rate=1r/s;
limit_conn_zone $uri_2 zone=many_2:1m;
upstream gateway_2 {
    server unix:/run/gateway_2.sock;
    zone peers;
}
map $uri_2 $url_2 {
    default http://gateway_2;
    agent http://origin;
}
server {
    listen unix:/run/gateway_2.sock;
    listen 8080;
    access_log agent agent_2;
    access_log agent other;
    limit_req zone=often_2 burst=2;
    limit_req zone=elsewhere;
    limit_conn many_2 1;
    proxy_pass http://gateway_2$request_uri;
    proxy_pass http://gateways;
    proxy_pass http://unix:/run/gateway.sock;
}
return $host:$uri_2;
`
	got, err := Write(Scope(append(block, D("return", Expression("$host:$uri"))), "_2", "$uri"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scoped (-want +got):\n%s", diff)
	}
	if after, _ := Write(block); after != before {
		t.Errorf("the block itself has changed:\n%s", after)
	}
}
