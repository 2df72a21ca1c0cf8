package nginxtest

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Connect joins the network namespaces of several nginxes. For each nginx, it returns the address at which the others
// reach this nginx. The namespace of the first nginx contains a bridge. Virtual Ethernet devices connect the others to
// the bridge.
func Connect(t *testing.T, pods ...*Nginx) (addresses map[int]string) {
	t.Helper()
	const bridge = "pods"
	addresses = map[int]string{}
	for i, n := range pods {
		n.namespace()
		addresses[i] = fmt.Sprintf("10.88.0.%d", i+1)
	}
	first := pods[0]
	first.ip("link add", bridge, "type bridge")
	first.ip("addr add", addresses[0]+"/24 dev", bridge)
	first.ip("link set", bridge, "up")
	for i, n := range pods[1:] {
		port := fmt.Sprintf("pod%d", i+1)
		first.ip("link add", port, "type veth peer name eth0 netns", n.netns())
		first.ip("link set", port, "master", bridge, "up")
		n.ip("addr add", addresses[i+1]+"/24 dev eth0")
		n.ip("link set eth0 up")
	}
	return addresses
}

// podServer matches the server line of an upstream for a pod.
var podServer = regexp.MustCompile(`(?m)^(\s*server )\S+-(\d+)\.\S+-pods\.[^:]+(:\d+.*) resolve;$`)

// WithAddresses returns a configuration in which addresses replace the names of pods. So a test does not have to wait
// until nginx has resolved the names. addresses contains the address of each pod, by ordinal.
func WithAddresses(text string, addresses map[int]string) string {
	return podServer.ReplaceAllStringFunc(text, func(line string) string {
		parts := podServer.FindStringSubmatch(line)
		ordinal, err := strconv.Atoi(parts[2])
		if address := addresses[ordinal]; err == nil && address != "" {
			return parts[1] + address + parts[3] + ";"
		}
		return line
	})
}

// Move gives the pod another address. The pod must not be the first pod that was passed to Connect.
func (n *Nginx) Move(from, to string) {
	n.ip("addr del", from+"/24 dev eth0")
	n.ip("addr add", to+"/24 dev eth0")
}

// Disconnect cuts the pod off from all other pods until Reconnect is called.
func (n *Nginx) Disconnect() { n.ip("link set eth0 down") }

// Reconnect connects the pod again after Disconnect.
func (n *Nginx) Reconnect() { n.ip("link set eth0 up") }

// ip runs ip in the network namespace.
func (n *Nginx) ip(words ...string) {
	n.t.Helper()
	args := append([]string{"--net=" + n.netns(), "ip"}, strings.Fields(strings.Join(words, " "))...)
	if output, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v\n%s", strings.Join(words, " "), err, output)
	}
}
