// Package top implements the plugin's verb that shows what each disk does at the moment.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package top

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
)

// options are the command's flags.
type options struct {
	interval time.Duration
	count    int
	byPod    bool
	output   *output.Flag
	// live is true if the screen is redrawn until the user interrupts the verb.
	live bool
}

// New returns the command.
func New() *cobra.Command {
	o := options{interval: 2 * time.Second}
	command := &cobra.Command{
		Use:   "top NAME",
		Short: "Show requests, hit ratio, bytes and latency of each disk, and hops of each pod, live",
		Long: `Show requests, hit ratio, bytes and time to the first byte of each disk over the last seconds.
If pods share keys, a second table shows each pod's share, its requests to other pods, and what it filled.
It fills objects and slices from the pod or the disk that had them, or else fetches them.
It goes on until it is interrupted. If the output is no terminal, it prints once.

The figures come from the pods' metrics, which count a sample of the requests (spec.monitoring.requestSampling).
A hit ratio is "too few" until the sample has 30 requests, unless all are counted: --interval 30s collects more.
Latencies are in the steps of the metrics' histogram. Reading them needs the right to get pods/proxy.`,
		Example: "  kubectl cachenode top edge\n  kubectl cachenode top edge -o json",
		Args:    cobra.ExactArgs(1),
	}
	command.Flags().DurationVar(&o.interval, "interval", o.interval, "the time between two looks, at least 1s")
	command.Flags().IntVar(&o.count, "count", 0, "how often to print; 0 on a terminal: until interrupted, otherwise once")
	command.Flags().BoolVar(&o.byPod, "pods", false, "a line for each disk of each pod, instead of one for each disk")
	o.output = output.Add(command, "")
	flags := connect.Add(command)
	command.ValidArgsFunction = flags.CompleteNames
	command.RunE = func(command *cobra.Command, args []string) error {
		if o.interval < time.Second || o.count < 0 {
			return fmt.Errorf("--interval %s, --count %d: want at least 1s, and no negative count", o.interval, o.count)
		}
		if err := o.output.Check(); err != nil {
			return err
		}
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		o.live = table.IsTerminal(out) && o.count == 0 && !o.output.IsForPrograms()
		if !o.live && o.count == 0 {
			o.count = 1
		}
		return o.run(command.Context(), cluster, args[0], out)
	}
	return command
}

func (o options) run(ctx context.Context, cluster *connect.Cluster, name string, out io.Writer) error {
	before, at, err := look(ctx, cluster, name)
	if err != nil {
		return err
	}
	for i := 0; o.live || i < o.count; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.interval):
		}
		after, now, err := look(ctx, cluster, name)
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the user has interrupted the verb
			}
			return err
		}
		if o.live {
			_, _ = fmt.Fprint(out, "\x1b[H\x1b[2J") // moves the cursor home and clears the screen
		}
		disks, routing := rates(before, after, now.Sub(at), o.byPod), routingRates(before, after, now.Sub(at))
		if o.output.IsForPrograms() {
			if err := o.output.Write(out, summarize(disks, routing, now.Sub(at))); err != nil {
				return err
			}
		} else {
			write(out, disks, o.byPod)
			writeRouting(out, routing)
		}
		before, at = after, now
	}
	return nil
}

// look reads the metrics of all pods of a CacheNode.
func look(ctx context.Context, cluster *connect.Cluster, name string) (map[string]podmetrics.Pod, time.Time, error) {
	cacheNode := &v1alpha1.CacheNode{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, cacheNode); err != nil {
		return nil, time.Time{}, err
	}
	var pods []string
	for _, p := range cacheNode.Status.Pods {
		pods = append(pods, p.Name)
	}
	numbers, _ := podmetrics.Read(ctx, cluster, pods)
	if len(numbers) == 0 {
		return nil, time.Time{}, fmt.Errorf("the metrics of the %d pods of CacheNode %s cannot be read: "+
			"the right to get pods/proxy is needed", len(pods), name)
	}
	return numbers, time.Now(), nil
}

// rate contains what a disk did between two reads of its metrics.
type rate struct {
	pod, disk                  string
	requests, bytes, overflows float64 // per second; requests and bytes are estimates for all requests
	used, size                 float64
	// sampled and sampledHits are the numbers of counted requests and of HITs among them. sampling is the share of all
	// requests that are counted.
	sampled, sampledHits, sampling float64
	firstByte                      map[float64]float64
}

// rates returns what the disks did between two reads of their metrics. It omits pods that are missing from one of the
// reads, and pods whose counters were reset between the reads. It is pure.
func rates(before, after map[string]podmetrics.Pod, elapsed time.Duration, byPod bool) []rate {
	all := map[[2]string]*rate{}
	for pod, numbers := range after {
		for name, now := range numbers.Disks {
			old, ok := before[pod].Disks[name]
			if name == "" || !ok || now.Requests < old.Requests || now.Overflows < old.Overflows {
				continue
			}
			key := [2]string{"", name}
			if byPod {
				key[0] = pod
			}
			if all[key] == nil {
				all[key] = &rate{pod: key[0], disk: name, firstByte: map[float64]float64{}}
			}
			all[key].add(old, now, elapsed.Seconds())
		}
	}
	var list []rate
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		list = append(list, *all[key])
	}
	return list
}

func (r *rate) add(old, now podmetrics.Disk, seconds float64) {
	scale := 0.0
	if now.Sampling > 0 {
		scale = 1 / now.Sampling / seconds
	}
	r.sampled += now.Requests - old.Requests
	r.sampledHits += now.Hits - old.Hits
	r.sampling = now.Sampling
	r.requests += (now.Requests - old.Requests) * scale
	r.bytes += (now.Bytes - old.Bytes) * scale
	r.overflows += (now.Overflows - old.Overflows) / seconds
	r.used += now.UsedBytes
	r.size += now.Size
	for bound, n := range now.FirstByte {
		r.firstByte[bound] += n - old.FirstByte[bound]
	}
}

// quantile returns the result of bound as a text for the table: "≤" or ">" and the bound, or "-" if there were no
// requests.
func (r rate) quantile(share float64) string {
	switch bound, isAbove, ok := r.bound(share); {
	case !ok:
		return "-"
	case isAbove:
		return ">" + seconds(bound)
	default:
		return "≤" + seconds(bound)
	}
}

// bound returns the lowest bound of the histogram, in seconds, within which a share of the requests got their first
// byte. isAbove is true if the time is above the highest bound; ok is false if there were no requests.
func (r rate) bound(share float64) (bound float64, isAbove, ok bool) {
	total := r.firstByte[math.Inf(1)]
	if total == 0 {
		return 0, false, false
	}
	bounds := slices.Sorted(maps.Keys(r.firstByte))
	i := slices.IndexFunc(bounds, func(b float64) bool { return r.firstByte[b] >= share*total })
	if i == len(bounds)-1 && i > 0 {
		return bounds[i-1], true, true
	}
	return bounds[i], false, true
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

func write(out io.Writer, list []rate, byPod bool) {
	columns := []string{"DISK", "REQUESTS/S", "HIT RATIO", "BYTES/S", "FIRST BYTE P50", "P99", "OVERFLOWS/S", "USED"}
	if byPod {
		columns = append([]string{"POD"}, columns...)
	}
	rows := table.New(out, -1, columns...)
	for _, r := range list {
		ratio, used := podmetrics.HitRatio(r.sampledHits, r.sampled, r.sampling), "-"
		if r.size > 0 {
			used = fmt.Sprintf("%.0f%%", 100*r.used/r.size)
		}
		cells := []string{
			r.disk, fmt.Sprintf("%.1f", r.requests), ratio, fmt.Sprintf("%.1f MiB", r.bytes/(1<<20)),
			r.quantile(.5), r.quantile(.99), fmt.Sprintf("%.1f", r.overflows), used,
		}
		if byPod {
			cells = append([]string{r.pod}, cells...)
		}
		rows.Row(cells...)
	}
	rows.Write()
}
