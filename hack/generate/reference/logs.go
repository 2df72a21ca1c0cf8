package main

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// logFields writes the fields of the access log in JSON.
func logFields() {
	fmt.Print(`<!-- Written by hack/generate/reference from internal/nginx/cache: make generate. -->
# Access log in JSON

For people who collect the logs of cache pods: what is in a line with ` + "`logs: {access: Stdout, format: JSON}`" + `.

Each line of the container nginx that begins with a brace is one request, as an object with these fields.
Every field is there each time; a text without a value is empty.
Fields are only ever added.
One request is one line, in the pod that the client asked: a pod that another pod asks logs nothing.
Hit ratios by "cache" thus count each request once, whichever pod answered.
Control characters, quotes and backslashes are escaped as in JSON.
Bytes that are no UTF-8 stand in a text as the client sent them.

| field | type | meaning | nginx variable |
|---|---|---|---|
`)
	for _, f := range cache.LogFields {
		kind := "text"
		if f.IsNumber {
			kind = "number"
		}
		variable := ""
		if f.Variable != "" {
			variable = "`" + f.Variable + "`"
		}
		fmt.Printf("| `%s` | %s | %s | %s |\n", f.Name, kind, f.Note, variable)
	}
}
