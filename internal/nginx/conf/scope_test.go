package conf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScope(t *testing.T) {
	t.Parallel()
	block := Block{
		Map("$host:$other", "$kind",
			D("default", Expression("$fallback")), Row(Expression("~^(?<label>[^.]*)$"), Expression("$label"))),
		B("split_clients", []Argument{Expression("$kind"), Expression("$half")}, D("*", Literal("a"))),
		D("js_set", Expression("$noted"), Literal("script.noted")),
		B("server", nil,
			D("set", Expression("$kind_of"), Expression("${kind}s$half-$noted$uri")),
			B("if", []Argument{Expression("($kind_of)")}, D("return", Literal("kind"))),
		).WithComment("kept"),
	}
	before, err := Write(block)
	if err != nil {
		t.Fatal(err)
	}
	want := `map $host:$other $kind_2 {
    default $fallback;
    "~^(?<label_2>[^.]*)$" $label_2;
}
split_clients $kind_2 $half_2 {
    * a;
}
js_set $noted_2 script.noted;
# kept
server {
    set $kind_of_2 "${kind_2}s$half_2-$noted_2$uri";
    if ($kind_of_2) {
        return kind;
    }
}
`
	got, err := Write(Scope(block, "_2"))
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
