// Command origin is the origin server of the tests and the demo. It serves objects of any size whose bytes follow from
// their path, and counts the requests for them.
//
//	GET /objects/SIZE/NAME   SIZE bytes
//	GET /count               how many objects were asked for
package main

import (
	"cmp"
	"fmt"
	"io"
	"log"
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
	var count atomic.Int64
	modified := time.Now().UTC().Format(http.TimeFormat)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, count.Load())
	})
	mux.HandleFunc("GET /objects/{size}/{name}", func(w http.ResponseWriter, r *http.Request) {
		size, ok := content.Size(r.URL.Path)
		if !ok {
			http.Error(w, "no such object", http.StatusNotFound)
			return
		}
		count.Add(1)
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Last-Modified", modified)
		if _, err := io.Copy(w, content.Reader(r.URL.Path, size)); err != nil {
			log.Print(err) // the client went away
		}
	})
	return mux
}
