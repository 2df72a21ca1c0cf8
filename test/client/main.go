// Command client is the HTTP client of the tests and the demo. It never retries, and checks the status and every byte
// of each response.
//
//	client wait
//	    does nothing until a signal: it keeps a pod running in which the other verbs are run
//	client fetch -base URL [-host NAME] [-keepalive] <PATHS
//	    fetches the paths one after another, and prints a JSON line for each
//	client load -base URL [-host NAME] [-keepalive] [-rate N] [-each] -seconds N -workers N <PATHS
//	    fetches random paths of the list and prints a summary as JSON, or with -each a JSON line for each request.
//	    SIGTERM ends it, and if an empty line follows the paths, the end of standard input ends it too
//	client end
//	    sends SIGTERM to all loads in this container
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("client: want wait, fetch, load or end")
	}
	verb := os.Args[1]
	flags := flag.NewFlagSet(verb, flag.ExitOnError)
	base := flags.String("base", "", "what goes before the paths, such as http://edge.default")
	host := flags.String("host", "", "the Host header, if it is not the host of -base")
	keepalive := flags.Bool("keepalive", false, "use a connection for more than one request")
	seconds := flags.Int("seconds", 10, "how long the load lasts at most")
	workers := flags.Int("workers", 4, "how many requests are under way at once")
	rate := flags.Int("rate", 0, "requests a second of all workers; 0: as fast as it goes")
	each := flags.Bool("each", false, "print each request of a load")
	_ = flags.Parse(os.Args[2:]) // exits on an error

	var err error
	switch verb {
	case "wait":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		<-stop
	case "fetch":
		err = fetchAll(os.Stdin, os.Stdout, newFetcher(*base, *host, *keepalive))
	case "load":
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
		defer cancel()
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
		l := load{workers: *workers, rate: *rate}
		if l.paths, err = pathsAndEnd(os.Stdin, cancel); err != nil {
			break
		}
		results := l.run(ctx, func() *fetcher { return newFetcher(*base, *host, *keepalive) })
		if *each {
			err = printEach(os.Stdout, results)
		} else {
			err = json.NewEncoder(os.Stdout).Encode(sumUp(results))
		}
	case "end":
		err = endLoads("/proc")
	default:
		err = fmt.Errorf("%s: want wait, fetch, load or end", verb)
	}
	if err != nil {
		log.Fatal("client: ", err)
	}
}

// pathsAndEnd reads one path a line until an empty line or the end of r. After an empty line, it calls end when r ends.
func pathsAndEnd(r io.Reader, end func()) ([]string, error) {
	var paths []string
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		if scanner.Text() == "" {
			go func() {
				_, _ = io.Copy(io.Discard, r) // an error ends r too
				end()
			}()
			break
		}
		paths = append(paths, scanner.Text())
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no paths on standard input")
	}
	return paths, scanner.Err()
}

func fetchAll(in io.Reader, out io.Writer, f *fetcher) error {
	paths, err := pathsAndEnd(in, func() {})
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	for _, path := range paths {
		if err := encoder.Encode(f.fetch(path)); err != nil {
			return err
		}
	}
	return nil
}

func printEach(out io.Writer, results <-chan timed) error {
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	for r := range results {
		if err := encoder.Encode(r.Result); err != nil {
			return err
		}
	}
	return buffered.Flush()
}
