// Command client is the HTTP client of the tests and the demo. It never retries, and checks the status and every byte
// of each response. Objects below /versions change, so the client does not check their bytes, and reports their version
// instead.
//
//	client wait
//	    does nothing until a signal: it keeps a pod running in which the other verbs are run
//	client fetch -base URL [-host NAME] [-keepalive] [-timeout DURATION] [-until DURATION] <PATHS
//	    fetches the paths one after another, and prints a JSON line for each. With -until, it fetches a path again and
//	    again until the status is 200, at most for this time, and prints only the last answer
//	client load -base URL [-host NAME] [-keepalive] [-timeout DURATION] [-rate N] [-each] -seconds N -workers N <PATHS
//	    fetches random paths of the list and prints a summary as JSON, or with -each a JSON line for each request.
//	    It prints the number of requests that have ended to standard error. SIGTERM ends the load. If an empty line
//	    follows the paths, the end of standard input ends the load too
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
	log.SetPrefix("client: ")
	if len(os.Args) < 2 {
		log.Fatal("want wait, fetch, load, slow or end")
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(verb string, args []string) error {
	flags := flag.NewFlagSet(verb, flag.ExitOnError)
	base := flags.String("base", "", "what goes before the paths, such as http://edge.default")
	host := flags.String("host", "", "the Host header, if it is not the host of -base")
	keepalive := flags.Bool("keepalive", false, "use a connection for more than one request")
	// The default is longer than the time for which nginx waits for an origin (75 s).
	timeout := flags.Duration("timeout", 2*time.Minute, "how long a request may take")
	seconds := flags.Int("seconds", 10, "how long the load lasts at most")
	workers := flags.Int("workers", 4, "how many requests are under way at once")
	rate := flags.Int("rate", 0, "requests per second of all workers; 0: as fast as it goes")
	until := flags.Duration("until", 0, "how long a path may take to be answered with status 200")
	each := flags.Bool("each", false, "print each request of a load")
	_ = flags.Parse(args) // exits on an error

	switch verb {
	case "wait":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		<-stop
	case "fetch":
		return fetchAll(os.Stdin, os.Stdout, newFetcher(*base, *host, *keepalive, *timeout), *until)
	case "load":
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
		defer cancel()
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
		paths, err := pathsAndEnd(os.Stdin, cancel)
		if err != nil {
			return err
		}
		l := load{paths: paths, workers: *workers, rate: *rate}
		results := l.run(ctx, func() *fetcher { return newFetcher(*base, *host, *keepalive, *timeout) })
		if *each {
			return printEach(os.Stdout, results)
		}
		return json.NewEncoder(os.Stdout).Encode(sumUp(results))
	case "slow":
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
		defer cancel()
		paths, err := pathsAndEnd(os.Stdin, func() {})
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(downloadSlowly(ctx, *base, *host, paths))
	case "end":
		return endLoads("/proc")
	default:
		return fmt.Errorf("%s: want wait, fetch, load or end", verb)
	}
	return nil
}

// pathsAndEnd reads one path from each line, until an empty line or the end of r. After an empty line, it continues
// to read r in the background, and calls the function end when r ends.
func pathsAndEnd(r io.Reader, end func()) ([]string, error) {
	var paths []string
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		if scanner.Text() == "" {
			go func() {
				_, _ = io.Copy(io.Discard, r) // an error counts as the end of r
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

func fetchAll(in io.Reader, out io.Writer, f *fetcher, until time.Duration) error {
	paths, err := pathsAndEnd(in, func() {})
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	for _, path := range paths {
		if err := encoder.Encode(f.fetchUntil(path, until)); err != nil {
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
