// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func newPortForward(e *env) *cobra.Command {
	var addresses []string
	cmd := &cobra.Command{
		Use:   "port-forward NAME [LOCAL:]REMOTE...",
		Short: "Forward local ports to a host",
		Long: `Listen on local ports and forward connections to ports of a host, until Ctrl-C. The
administrator of the cluster decides which ports may be forwarded to.`,
		Example: `  # The metrics of windows_exporter, under the same port here
  kubectl windows port-forward win-6 9182

  # WinRM under port 15985 here, and any free port for the kubelet
  kubectl windows port-forward win-6 15985:5985 :10250`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: e.completeHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, t, err := e.one(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			forwarder, err := c.forward(cmd.Context(), t, addresses, args[1:], nil, e.Out, e.ErrOut)
			if err != nil {
				return err
			}
			return forwarded(cmd.Context(), t, forwarder.ForwardPorts())
		},
	}
	cmd.Flags().StringSliceVar(&addresses, "address", []string{"localhost"}, "Addresses to listen on: IP addresses or localhost, separated by commas.")
	return cmd
}

// one finds the one host that is named.
func (e *env) one(ctx context.Context, name string) (*client, target, error) {
	c, err := e.client()
	if err != nil {
		return nil, target{}, err
	}
	t, err := c.get(ctx, name)
	return c, t, err
}

// forward prepares to listen on local ports. ready is closed when it listens; nil when
// nobody waits for that.
func (c *client) forward(ctx context.Context, t target, addresses, ports []string, ready chan struct{}, out, errOut io.Writer) (*portforward.PortForwarder, error) {
	remote, err := remotePorts(ports)
	if err != nil {
		return nil, err
	}
	// With the ports in it the request is refused at once when one is not allowed.
	url := c.streamURL(t, "portforward", &v1alpha1.WindowsInstancePortForwardOptions{Ports: remote})
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, c.config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(tunnel,
		spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), notUpgraded)
	return portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, addresses, ports, ready, out, errOut)
}

// remotePorts are the ports of the host in arguments such as 8080:80, :80 and 80.
func remotePorts(ports []string) ([]int32, error) {
	var remote []int32
	for _, port := range ports {
		_, number, found := strings.Cut(port, ":")
		if !found {
			number = port
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%q is no port: want REMOTE, LOCAL:REMOTE or :REMOTE with numbers from 1 to 65535", port)
		}
		remote = append(remote, int32(n))
	}
	return remote, nil
}

// forwarded is how forwarding ended, in our words.
func forwarded(ctx context.Context, t target, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, portforward.ErrLostConnectionToPod):
		return fmt.Errorf("the connection to %s was lost", t.Name)
	case err != nil:
		return fmt.Errorf("forwarding to %s: %w", t.Name, err)
	}
	return nil
}
