// Package podexec runs commands in the containers of pods, for the plugin's verbs that inspect pods.
//
// It imports connect, and agentapi to print the output of a pod. Each verb decides what it runs in a pod.
package podexec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
)

// maxError is the maximum number of bytes of a command's standard error that an error message contains.
const maxError = 4 << 10

// Run runs a command and returns what it writes to its standard output. It needs the rights to get and create
// pods/exec. An error includes what the command wrote to standard error.
func Run(ctx context.Context, cluster *connect.Cluster, pod, container string, command ...string) ([]byte, error) {
	return RunWith(ctx, cluster, pod, container, nil, command...)
}

// RunWith runs a command as Run does, and writes stdin to the standard input of the command.
func RunWith(
	ctx context.Context, cluster *connect.Cluster, pod, container string, stdin io.Reader, command ...string,
) ([]byte, error) {
	options := &corev1.PodExecOptions{
		Container: container, Command: command, Stdin: stdin != nil, Stdout: true, Stderr: true,
	}
	request := cluster.Kubernetes.CoreV1().RESTClient().Post().
		Namespace(cluster.Namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec)
	websocket, err := remotecommand.NewWebSocketExecutor(cluster.Config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(cluster.Config, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	// kubectl does the same, because an old API server, or a proxy in front of it, may not accept a WebSocket.
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	streams := remotecommand.StreamOptions{Stdin: stdin, Stdout: &stdout, Stderr: &stderr}
	if err := executor.StreamWithContext(ctx, streams); err != nil {
		if text := strings.TrimSpace(agentapi.Printable(stderr.String(), maxError)); text != "" {
			return nil, fmt.Errorf("%s: %w: %s", pod, err, text)
		}
		return nil, fmt.Errorf("%s: %w", pod, err)
	}
	return stdout.Bytes(), nil
}
