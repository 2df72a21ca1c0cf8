package main

import (
	"fmt"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// requestHeaders writes the page about the headers of requests. The page shows which headers of a client's request
// reach the origin.
func requestHeaders() {
	fmt.Print(strings.ReplaceAll(`<!-- Written by hack/generate/reference from internal/nginx/cache: make generate. -->
# Request headers

For operators of an origin behind a CacheNode: which headers of a client's request reach the origin.

Some headers make servers or frameworks see another host, scheme, path or method than that of the request.
Such a header does not reach the origin, unless it is part of the cache key.
Otherwise one client could have a response stored that others then get.

All other headers reach the origin.
If a response depends on one of them, the origin must name that header in Vary.
It can also send Cache-Control: private or no-store.
A response with X-Forwarded-For in Vary is not stored: nginx would compare the client's own header, not what it sends.
An origin must not take the host or the path from a header of its own making.

The same holds for the path and its arguments.
With RequestURI in 'cache.key', the origin gets them as the client wrote them.
With URI, the origin gets the normalized path that is in the key.
It gets the arguments of methods that are cached only if Args is in the key.

| class | meaning |
|---|---|
| Set | nginx sets the value, whatever the client sends |
| Removed | does not reach the origin |
| Bypass | reaches the origin; the response is neither stored nor answered from a cache |
| Revalidating | nginx answers it; to the origin only if it bypasses the caches, or if disks have failed |
| Passed | reaches the origin, as does every header that is not listed here |

| header | class | |
|---|---|---|
`, "'cache.key'", "`cache.key`"))
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
