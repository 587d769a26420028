// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
)

// rdpPort is where Windows listens for Remote Desktop (RFC 6335 ms-wbt-server).
const rdpPort = "3389"

type rdpOptions struct {
	user      string
	port      uint16
	printOnly bool
}

func newRDP(e *env) *cobra.Command {
	o := &rdpOptions{}
	cmd := &cobra.Command{
		Use:   "rdp NAME",
		Short: "Open the desktop of a host",
		Long: `Forward a local port to Remote Desktop of a host and start a client on it: mstsc on Windows,
the program for .rdp files on macOS, FreeRDP (xfreerdp) elsewhere. It ends with the client.

With --print, or without a client, it prints where to connect to, until Ctrl-C. The
password is that of the user on the host; this command does not know it.`,
		Example: `  kubectl windows rdp win-6
  kubectl windows rdp win-6 --print --port 13389`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completeHost,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), e, args[0]) },
	}
	cmd.Flags().StringVar(&o.user, "user", "", "User to log in as. Empty: that of the instance.")
	cmd.Flags().Uint16Var(&o.port, "port", 0, "Local port. 0: any that is free.")
	cmd.Flags().BoolVar(&o.printOnly, "print", false, "Start no client; print where to connect to.")
	return cmd
}

func (o *rdpOptions) run(ctx context.Context, e *env, name string) error {
	c, t, err := e.one(ctx, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	local := strconv.Itoa(int(o.port))
	forwarder, err := c.forward(ctx, t, []string{"127.0.0.1"}, []string{local + ":" + rdpPort}, io.Discard, e.ErrOut)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- forwarder.Serve(ctx) }()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(forwarder.Ports()[0].Local)))
	user := cmp.Or(o.user, t.Spec.Username)
	command := rdpClient(runtime.GOOS, exec.LookPath)
	if o.printOnly || command == nil {
		if !o.printOnly {
			e.note("no client for Remote Desktop is on the PATH")
		}
		text := fmt.Sprintf("Connect a client for Remote Desktop to %s as %s. Ctrl-C ends it.\n", address, orNone(user))
		if err := e.print(text); err != nil {
			return err
		}
		return <-done
	}
	e.note("%s: %s as %s", command.name, address, orNone(user))
	err = command.run(ctx, e, address, user)
	cancel()
	<-done //nolint:errcheck // the forwarding ends because of us, in whichever way
	return err
}

// rdpCommand is a client for Remote Desktop.
type rdpCommand struct {
	name string
	// byFile says that it takes a file and not flags.
	byFile bool
	// before are arguments before the file.
	before []string
}

// rdpClient is the client that a system has. Nil: none.
func rdpClient(goos string, look func(string) (string, error)) *rdpCommand {
	candidates := []rdpCommand{{name: "xfreerdp3"}, {name: "xfreerdp"}}
	switch goos {
	case "windows":
		candidates = []rdpCommand{{name: "mstsc", byFile: true}}
	case "darwin":
		candidates = append(candidates, rdpCommand{name: "open", byFile: true, before: []string{"-W"}})
	}
	for _, candidate := range candidates {
		if path, err := look(candidate.name); err == nil {
			candidate.name = path
			return &candidate
		}
	}
	return nil
}

// run runs the client to its end.
func (r *rdpCommand) run(ctx context.Context, e *env, address, user string) error {
	args := []string{"/v:" + address}
	if user != "" {
		args = append(args, "/u:"+user)
	}
	if r.byFile {
		file, err := rdpFile(address, user)
		if err != nil {
			return err
		}
		defer os.Remove(file) //nolint:errcheck // in the directory for such files
		args = slices.Concat(r.before, []string{file})
	}
	cmd := exec.CommandContext(ctx, r.name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.In, e.Out, e.ErrOut
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

// rdpFile writes a connection file.
func rdpFile(address, user string) (name string, err error) {
	f, err := os.CreateTemp("", "kubectl-windows-*.rdp")
	if err != nil {
		return "", fmt.Errorf("writing the file for the client: %w", err)
	}
	_, err = f.WriteString(rdpSettings(address, user))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("writing the file for the client: %w", err)
	}
	return f.Name(), nil
}

// rdpSettings is the content of a connection file: name, type and value, separated by
// colons, in lines that end as on Windows.
func rdpSettings(address, user string) string {
	settings := "full address:s:" + address + "\r\nprompt for credentials:i:1\r\n"
	if user != "" {
		settings += "username:s:" + user + "\r\n"
	}
	return settings
}
