// Command rate sends requests at a fixed rate, even if the server is slow, and prints figures about the answers as
// JSON.
//
//	rate -address HOST:PORT -rate N -connections N -seconds N <PATHS
//
// Request number n is due n/rate seconds after the start. Its latency is measured from this time, even if all
// connections are busy then. So if a server stops for a second, the latencies of all requests that are due in this
// second are longer. A client in a closed loop sends the next request only after the last response, so it would see
// only one slow request for each connection. This error is called coordinated omission (see github.com/giltene/wrk2).
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/cachenode/cachenode-operator/test/lab"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("rate: ")
	address := flag.String("address", "", "the server, HOST:PORT")
	rate := flag.Float64("rate", 0, "requests per second")
	connections := flag.Int("connections", 50, "how many requests are under way at once, at most")
	seconds := flag.Float64("seconds", 10, "how long requests are sent")
	flag.Parse()
	if *address == "" || *rate <= 0 || *connections <= 0 || *seconds <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	answers, err := run(*address, schedule{*rate, *connections, time.Duration(*seconds * float64(time.Second))})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answers)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run sends requests for the paths that it reads from standard input, in their order. After the last path, it starts
// again with the first path.
func run(address string, s schedule) (lab.Answers, error) {
	var paths []string
	scanner := bufio.NewScanner(os.Stdin)
	for scanner.Scan() {
		paths = append(paths, scanner.Text())
	}
	if err := scanner.Err(); err != nil || len(paths) == 0 {
		return lab.Answers{}, errors.Join(err, errors.New("want paths on standard input"))
	}
	client := &fasthttp.HostClient{
		Addr: address, MaxConns: s.connections, ReadTimeout: time.Minute, MaxIdemponentCallAttempts: 1,
		ReadBufferSize: 64 << 10,
	}
	return s.run(func() func(n int64) (int64, error) {
		var request fasthttp.Request
		var response fasthttp.Response
		request.Header.SetHost(address)
		return func(n int64) (int64, error) {
			request.SetRequestURI("http://" + address + paths[n%int64(len(paths))])
			if err := client.Do(&request, &response); err != nil {
				return 0, err
			}
			if status := response.StatusCode(); status != fasthttp.StatusOK {
				return 0, fmt.Errorf("status %d", status)
			}
			return int64(len(response.Body())), nil
		}
	}), nil
}
