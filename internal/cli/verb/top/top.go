// Package top is the plugin's verb that shows what each disk does right now.
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
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
)

// New makes the command.
func New() *cobra.Command {
	interval, count, byPod := 2*time.Second, 0, false
	command := &cobra.Command{
		Use:   "top NAME",
		Short: "Show requests, hit ratio, bytes and latency of each disk, and hops of each pod, live",
		Long: `Show requests, hit ratio, bytes and time to the first byte of each disk over the last seconds.
If pods share keys, a second table shows each pod's share, its requests to other pods, and what it filled.
It fills objects and slices from the pod or the disk that had them, or else fetches them.
It goes on until it is interrupted. If the output is no terminal, it prints once.

The figures come from the pods' metrics, which count a sample of the requests (spec.monitoring.requestSampling).
Latencies are in the steps of the metrics' histogram. Reading them needs the right to get pods/proxy.`,
		Example: "  kubectl cachenode top edge",
		Args:    cobra.ExactArgs(1),
	}
	command.Flags().DurationVar(&interval, "interval", interval, "the time between two looks, at least 1s")
	command.Flags().IntVar(&count, "count", 0, "how often to print; 0 on a terminal: until interrupted, otherwise once")
	command.Flags().BoolVar(&byPod, "pods", false, "a line for each disk of each pod, instead of one for each disk")
	flags := connect.Add(command)
	command.ValidArgsFunction = flags.CompleteNames
	command.RunE = func(command *cobra.Command, args []string) error {
		if interval < time.Second || count < 0 {
			return fmt.Errorf("--interval %s, --count %d: want at least 1s, and no negative count", interval, count)
		}
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		live := table.IsTerminal(out) && count == 0
		if !live && count == 0 {
			count = 1
		}
		return run(command.Context(), cluster, args[0], interval, count, byPod, live, out)
	}
	return command
}

func run(
	ctx context.Context, cluster *connect.Cluster, name string, interval time.Duration, count int, byPod, live bool,
	out io.Writer,
) error {
	before, at, err := look(ctx, cluster, name)
	if err != nil {
		return err
	}
	for i := 0; live || i < count; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
		after, now, err := look(ctx, cluster, name)
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the user has seen enough
			}
			return err
		}
		if live {
			_, _ = fmt.Fprint(out, "\x1b[H\x1b[2J") // the cursor home, the screen empty
		}
		write(out, rates(before, after, now.Sub(at), byPod), byPod)
		writeRouting(out, routingRates(before, after, now.Sub(at)))
		before, at = after, now
	}
	return nil
}

// look asks all pods of a CacheNode for their numbers.
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

// rate is what a disk did between two looks.
type rate struct {
	pod, disk                        string
	requests, hits, bytes, overflows float64 // each second; the first three are estimates for all requests
	used, size                       float64
	firstByte                        map[float64]float64
}

// rates returns what the disks did between two looks. It leaves out pods that one of the looks has not seen, and pods
// whose counters began again. It is pure.
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
	r.requests += (now.Requests - old.Requests) * scale
	r.hits += (now.Hits - old.Hits) * scale
	r.bytes += (now.Bytes - old.Bytes) * scale
	r.overflows += (now.Overflows - old.Overflows) / seconds
	r.used += now.UsedBytes
	r.size += now.Size
	for bound, n := range now.FirstByte {
		r.firstByte[bound] += n - old.FirstByte[bound]
	}
}

// quantile is the lowest bound of the histogram within which a share of the requests is; "-" if there were none.
func (r rate) quantile(share float64) string {
	total := r.firstByte[math.Inf(1)]
	if total == 0 {
		return "-"
	}
	bounds := slices.Sorted(maps.Keys(r.firstByte))
	for i, bound := range bounds {
		if r.firstByte[bound] >= share*total {
			if math.IsInf(bound, 1) {
				return fmt.Sprintf(">%s", seconds(bounds[i-1]))
			}
			return "≤" + seconds(bound)
		}
	}
	return "-"
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
		ratio, used := "-", "-"
		if r.requests > 0 {
			ratio = fmt.Sprintf("%.1f%%", 100*r.hits/r.requests)
		}
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
