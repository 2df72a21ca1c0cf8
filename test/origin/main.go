// Command origin is the origin server of the tests and the demo. It serves objects of any size up to 64 MiB, whose
// bytes depend only on their path, and counts the requests for them. If a request contains the Last-Modified date of
// the object in If-Modified-Since, the status of the answer is 304.
//
//	GET /objects/SIZE/NAME   SIZE bytes
//	GET /count               the number of requests for objects
//	GET /bodies              the number of these requests whose answer contained the body of the object
//	GET /publish             creates the next version of all objects below /versions, and returns its number
//	POST /versions/TAG/NAME  the same as /publish
//	GET /versions/TAG/NAME   the latest version at the time of the request; the answer takes up to 300 ms
package main

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cachenode/cachenode-operator/test/content"
)

func main() {
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ORIGIN_ADDRESS"), ":8080"),
		Handler:           handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
	}
	log.Fatal(server.ListenAndServe())
}

func handler() http.Handler {
	var count, bodies atomic.Int64
	modified := time.Now().UTC().Format(http.TimeFormat)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, count.Load())
	})
	mux.HandleFunc("GET /bodies", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, bodies.Load())
	})
	var version atomic.Int64
	mux.HandleFunc("GET /publish", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, version.Add(1))
	})
	mux.HandleFunc("GET /versions/{tag}/{name}", func(w http.ResponseWriter, r *http.Request) {
		now := version.Load()
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		etag := fmt.Sprintf(`"%d"`, now)
		w.Header().Set("Surrogate-Key", "all "+r.PathValue("tag"))
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("Etag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = fmt.Fprintln(w, now)
	})
	mux.HandleFunc("POST /versions/{tag}/{name}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, version.Add(1))
	})
	mux.HandleFunc("GET /objects/{size}/{name}", func(w http.ResponseWriter, r *http.Request) {
		size, ok := content.Size(r.URL.Path)
		if !ok {
			http.Error(w, "no such object", http.StatusNotFound)
			return
		}
		count.Add(1)
		w.Header().Set("Last-Modified", modified)
		if r.Header.Get("If-Modified-Since") == modified {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		bodies.Add(1)
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		w.Header().Set("Content-Type", "application/octet-stream")
		if _, err := io.Copy(w, content.Reader(r.URL.Path, size)); err != nil {
			log.Print(err) // the client closed the connection
		}
	})
	return mux
}
