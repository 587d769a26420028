// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/scheme"
	"github.com/openshift/windows-instance-api/pkg/plugin/portforward"
)

func newPortForward(e *env) *cobra.Command {
	var addresses []string
	cmd := &cobra.Command{
		Use:   "port-forward NAME [LOCAL:]REMOTE...",
		Short: "Forward local ports to a host",
		Long: `Listen on local ports and forward connections to ports of a host, until Ctrl-C. The
administrator of the cluster decides which ports may be forwarded to. A connection that the host
refuses is reported, and the others continue.`,
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
			forwarder, err := c.forward(cmd.Context(), t, addresses, args[1:], e.Out, e.ErrOut)
			if err != nil {
				return err
			}
			return forwarder.Serve(cmd.Context())
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

// forward listens on local ports, unless the server refuses to forward to those of the host.
func (c *client) forward(ctx context.Context, t target, addresses, arguments []string, out, errOut io.Writer) (*portforward.Forwarder, error) {
	ports, err := portforward.ParsePorts(arguments)
	if err != nil {
		return nil, err
	}
	if err := c.mayForward(ctx, t, ports); err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, port uint16) (*portforward.Conn, error) {
		url := c.streamURL(t, "portforward", &v1alpha1.WindowsInstancePortForwardOptions{Ports: []int32{int32(port)}})
		return portforward.Dial(ctx, c.config, url.String())
	}
	return portforward.Listen(ctx, addresses, ports, dial, out, errOut)
}

// mayForward asks for the ports without opening a connection to them, so that a refusal is
// told at once and not when somebody connects.
func (c *client) mayForward(ctx context.Context, t target, ports []portforward.Port) error {
	options := &v1alpha1.WindowsInstancePortForwardOptions{}
	for _, port := range ports {
		options.Ports = append(options.Ports, int32(port.Remote))
	}
	err := c.request("GET", t, "portforward").VersionedParams(options, scheme.ParameterCodec).Do(ctx).Error()
	if apierrors.ReasonForError(err) == v1alpha1.StatusReasonUpgradeRequired {
		return nil
	}
	return err
}
