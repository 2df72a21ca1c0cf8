package conf

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestWrite(t *testing.T) {
	tests := map[string]struct {
		block Block
		want  string
	}{
		"simple":         {Block{D("sendfile", OnOff(true))}, "sendfile on;\n"},
		"no argument":    {Block{D("stub_status")}, "stub_status;\n"},
		"empty argument": {Block{D("set", Literal(""))}, "set \"\";\n"},
		"block":          {Block{B("events", nil, D("accept_mutex", OnOff(false)))}, "events {\n    accept_mutex off;\n}\n"},
		"empty block":    {Block{B("types", nil)}, "types { }\n"},
		"variables":      {Block{D("set", Expression("$a"), Expression("$b c"))}, "set $a \"$b c\";\n"},
		"quotes":         {Block{D("return", Literal(`a"b\c`))}, `return "a\"b\\c";` + "\n"},
		"special characters": {
			Block{D("return", Literal("a;b"), Literal("{"), Literal("}"), Literal("#"), Literal("'"))},
			`return "a;b" "{" "}" "#" "'";` + "\n",
		},
		"a comment cannot end its line": {Block{{Name: "a", Comment: "one\ntwo\revil"}}, "# one\n# twoevil\na;\n"},
		"rows": {
			Block{{Name: "map", Rows: true, Block: Block{D("a", Literal("1")), D("b", Literal("2"))}}},
			"map {\n    a 1; b 2;\n}\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Write(tt.block)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Write (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	tests := map[string]struct {
		directive Directive
		want      string
	}{
		"a variable in a literal":  {D("return", Literal("$evil")), `has a "$"`},
		"a newline":                {D("return", Literal("a\nb")), "control character"},
		"a newline in expressions": {D("return", Expression("a\nb")), "control character"},
		"a null byte":              {D("return", Literal("a\x00")), "control character"},
		"too long":                 {D("return", Literal(strings.Repeat(`"`, 2000))), "the maximum is 4000"},
		"broken UTF-8":             {D("return", Literal("\xff")), "UTF-8"},
		"no name":                  {D(""), "no directive's name"},
		"a name with a semicolon":  {D("a;b"), "no directive's name"},
		"a block in rows":          {Directive{Name: "a", Rows: true, Block: Block{B("b", nil)}}, "rows"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Write(Block{tt.directive}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestUnits(t *testing.T) {
	tests := map[string]struct{ got, want Literal }{
		"a tebibyte has no unit in nginx": {Offset(1 << 40), "1024g"},
		"nor has a gibibyte in memory":    {Size(1 << 30), "1024m"},
		"mebibytes":                       {Size(1500 << 20), "1500m"},
		"kibibytes":                       {Size(100 << 10), "100k"},
		"bytes":                           {Size(1000), "1000"},
		"nothing":                         {Size(0), "0"},
		"seconds":                         {Time(90 * time.Second), "90s"},
		"milliseconds":                    {Time(1500 * time.Millisecond), "1500ms"},
		"rounded up":                      {Seconds(1500 * time.Millisecond), "2s"},
		"percent":                         {Literal(Percent(5)), "0.05%"},
		"whole percents":                  {Literal(Percent(3334)), "33.34%"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %s, want %s", tt.got, tt.want)
			}
		})
	}
}

// FuzzWrite checks the writer against nginx's lexing rules. All words that the writer accepts must be read back
// unchanged.
func FuzzWrite(f *testing.F) {
	for _, seed := range []string{
		"plain", "", `"`, `\`, `a\`, `\"`, "a b", "{", "};", "#", "'", "$x", "${", "\t", "é", "*",
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, literal, expression string) {
		inner := D("inner", Expression(expression), Literal(literal))
		text, err := Write(Block{B("outer", Literals(literal), inner, D("after"))})
		if err != nil {
			if text != "" {
				t.Errorf("an error and a text: %q", text)
			}
			return
		}
		got, err := lex(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		want := []token{
			{word: "outer"},
			{word: literal},
			{mark: '{'},
			{word: "inner"},
			{word: expression},
			{word: literal},
			{mark: ';'},
			{word: "after"},
			{mark: ';'},
			{mark: '}'},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(token{})); diff != "" {
			t.Errorf("read back (-want +got):\n%s\n%s", diff, text)
		}
		if strings.Contains(literal, "$") || !utf8.ValidString(literal) {
			t.Errorf("the literal %q was written", literal)
		}
	})
}

// token is a word, or one of the marks ; { }.
type token struct {
	word string
	mark byte
}

// lex reads words by the rules of nginx's function ngx_conf_read_token. Quotes have a meaning only at the beginning of
// a word. Inside quotes, a backslash escapes quotes and backslashes, and \t, \r and \n mean white space. A backslash
// outside quotes is an error here, because the writer always quotes it.
func lex(text string) ([]token, error) {
	var tokens []token
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
		case strings.IndexByte(";{}", c) >= 0:
			tokens = append(tokens, token{mark: c})
			i++
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '"' || c == '\'':
			word, n, err := quoted(text[i+1:], c)
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, token{word: word})
			i += n + 2
			if i < len(text) && strings.IndexByte(" \t\r\n;{)", text[i]) < 0 {
				return nil, errors.New("something stands right after a quote")
			}
		default:
			begin := i
			for i < len(text) && strings.IndexByte(" \t\r\n;{", text[i]) < 0 {
				if text[i] == '\\' {
					return nil, errors.New("an unquoted backslash")
				}
				i++
			}
			tokens = append(tokens, token{word: text[begin:i]})
		}
	}
	return tokens, nil
}

func quoted(text string, quote byte) (word string, length int, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			return b.String(), i, nil
		case c == '\\' && i+1 < len(text):
			i++
			switch text[i] {
			case '"', '\'', '\\':
				b.WriteByte(text[i])
			case 't', 'r', 'n':
				b.WriteByte(map[byte]byte{'t': '\t', 'r': '\r', 'n': '\n'}[text[i]])
			default:
				b.WriteString(text[i-1 : i+1])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, errors.New("a quote is not closed")
}
