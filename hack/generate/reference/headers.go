package main

import (
	"fmt"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// requestHeaders writes which headers of a client's request reach the origin.
func requestHeaders() {
	fmt.Print(`<!-- Written by hack/generate/reference from internal/nginx/cache: make generate. -->
# Request headers

For whoever runs an origin behind a CacheNode: which headers of a client's request reach it.

**The rule**: what servers and frameworks are known to take for another host, scheme, path or method than the ` +
		`request's own does not reach the origin, unless
it is part of the cache key. Otherwise one client could have a response stored that others are then served. ` +
		`All other headers reach the origin. Where its
response depends on one of them, it must name that header in Vary, or say Cache-Control: private or no-store. ` +
		`An origin that takes a header of its own making for host or path
must not trust it from here.

The same holds for the path and its arguments. With RequestURI in ` + "`cache.key`" + `, the origin gets them ` +
		`as the client wrote them. With URI, it gets the
normalized path that is in the key, and the arguments of methods that are cached only where Args is in the key.

| class | meaning |
|---|---|
| Set | nginx sets the value, whatever the client sends |
| Removed | does not reach the origin |
| Bypass | reaches the origin; the response is neither stored nor answered from a cache |
| Revalidating | is nginx's to answer; it reaches the origin only with a request that no disk can serve |
| Passed | reaches the origin, as does every header that is not listed here |

| header | class | |
|---|---|---|
`)
	var rows []cache.RequestHeader
	for _, h := range cache.RequestHeaders {
		if n := len(rows); n > 0 && rows[n-1].Class == h.Class && rows[n-1].Note == h.Note {
			rows[n-1].Name += "`, `" + h.Name
			continue
		}
		rows = append(rows, h)
	}
	for _, h := range rows {
		fmt.Printf("| `%s` | %s | %s |\n", h.Name, h.Class, strings.ReplaceAll(h.Note, "|", `\|`))
	}
}
