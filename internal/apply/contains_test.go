package apply

import (
	"encoding/json"
	"testing"
)

func TestContains(t *testing.T) {
	tests := map[string]struct {
		live, want string
		is         bool
	}{
		"equal":                         {`{"a":1}`, `{"a":1}`, true},
		"live has more":                 {`{"a":1,"b":2}`, `{"a":1}`, true},
		"live lacks a field":            {`{"a":1}`, `{"a":1,"b":2}`, false},
		"another value":                 {`{"a":1}`, `{"a":2}`, false},
		"false is not absent":           {`{}`, `{"a":false}`, false},
		"deep":                          {`{"a":{"b":{"c":1,"d":2}}}`, `{"a":{"b":{"c":1}}}`, true},
		"a list":                        {`{"a":[1,2]}`, `{"a":[1,2]}`, true},
		"a list of another length":      {`{"a":[1,2,3]}`, `{"a":[1,2]}`, false},
		"a list in another order":       {`{"a":[2,1]}`, `{"a":[1,2]}`, false},
		"elements of a list have more":  {`{"a":[{"b":1,"c":2}]}`, `{"a":[{"b":1}]}`, true},
		"named elements in any order":   {`{"a":[{"name":"y"},{"name":"x","v":1}]}`, `{"a":[{"name":"x","v":1}]}`, true},
		"a named element is missing":    {`{"a":[{"name":"y"}]}`, `{"a":[{"name":"x"}]}`, false},
		"a named element has changed":   {`{"a":[{"name":"x","v":2}]}`, `{"a":[{"name":"x","v":1}]}`, false},
		"an object for a list":          {`{"a":{}}`, `{"a":[1]}`, false},
		"a list for an object":          {`{"a":[]}`, `{"a":{"b":1}}`, false},
		"an empty object must be there": {`{}`, `{"emptyDir":{}}`, false},
		"null is not an empty object":   {`{"emptyDir":null}`, `{"emptyDir":{}}`, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var live, want any
			for text, target := range map[string]*any{tt.live: &live, tt.want: &want} {
				if err := json.Unmarshal([]byte(text), target); err != nil {
					t.Fatal(err)
				}
			}
			if tt.live == tt.want {
				want = live
			}
			if got := contains(live, want); got != tt.is {
				t.Errorf("contains is %t, want %t", got, tt.is)
			}
		})
	}
}

func FuzzContains(f *testing.F) {
	f.Add(`{"a":[{"name":"x"},{"name":"x"}]}`)
	f.Add(`{"a":[1,{"b":null}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var object, again map[string]any
		if json.Unmarshal([]byte(text), &object) != nil || json.Unmarshal([]byte(text), &again) != nil {
			return
		}
		if !contains(object, again) {
			t.Errorf("%s does not contain itself", text)
		}
		prune(again)
		if !contains(object, again) {
			t.Errorf("%s does not contain itself pruned", text)
		}
	})
}
