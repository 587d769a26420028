// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	mobyterm "github.com/moby/term"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/kubectl/pkg/util/interrupt"
	"k8s.io/kubectl/pkg/util/term"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

type execOptions struct {
	selection
	stdin, tty, quiet bool
	command           []string
}

func newExec(e *env) *cobra.Command {
	o := &execOptions{}
	cmd := &cobra.Command{
		Use:   "exec (NAME | -l SELECTOR | --pool POOL | -A) [flags] -- COMMAND [ARG...]",
		Short: "Run a program on a host",
		Long: `Run a program on a host, as kubectl exec does in a container. Program and arguments are quoted
for the shell of the host, so that the program gets them as they are; for redirections and the
like call a shell: -- cmd /c "dir > C:\list.txt".

Exits with the code of the program. With a selector it runs on several hosts, and each line has
the name of the host before it.`,
		Example: `  kubectl windows exec win-6 -- hostname
  kubectl windows exec win-6 -- powershell -Command "Get-Service kubelet, containerd"
  kubectl windows exec win-6 -i -- powershell -Command - < script.ps1
  kubectl windows exec win-6 -it -- cmd
  kubectl windows exec --pool windows-instances -- hostname`,
		ValidArgsFunction: e.completeHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 || len(args) == dash {
				return errors.New("name the program to run after two dashes: exec NAME -- COMMAND [ARG...]")
			}
			o.command = args[dash:]
			return o.run(cmd.Context(), e, args[:dash])
		},
	}
	o.selection.addFlags(e, cmd)
	o.addParallel(cmd, readersAtOnce)
	cmd.Flags().BoolVarP(&o.stdin, "stdin", "i", false, "Give the program the input of this command.")
	cmd.Flags().BoolVarP(&o.tty, "tty", "t", false, "Give the program a terminal.")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "Print the output of the program only.")
	return cmd
}

func newShell(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "shell NAME",
		Short: "Log in to a host",
		Long: `Open an interactive shell on a host: the one that its SSH server starts, cmd.exe or PowerShell.
It ends with exit, and so does this command with its exit code.`,
		Example:           `  kubectl windows shell win-6`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completeHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := &execOptions{stdin: true, tty: true}
			return o.run(cmd.Context(), e, args)
		},
	}
}

func (o *execOptions) run(ctx context.Context, e *env, names []string) error {
	if len(names) > 1 {
		return errors.New("name one host, or select several with -l, --field-selector, --pool or -A")
	}
	if o.selects() && (o.stdin || o.tty) {
		return errors.New("-i and -t are for one host: there is one input")
	}
	return e.eachSelected(ctx, names, &o.selection, func(ctx context.Context, e *env, c *client, t target) error {
		return o.exec(ctx, e, c, t)
	})
}

// exec runs the program on one host.
func (o *execOptions) exec(ctx context.Context, e *env, c *client, t target) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	streams := remotecommand.StreamOptions{Stdout: e.Out, Stderr: e.ErrOut}
	terminal := term.TTY{Out: e.Out}
	if o.stdin {
		streams.Stdin, terminal.In = e.In, e.In
	}
	switch {
	case o.tty && terminal.In != nil && terminal.IsTerminalIn():
		// The streams of the process itself are what Windows needs for a terminal.
		stdin, stdout, _ := mobyterm.StdStreams()
		terminal = term.TTY{In: stdin, Out: stdout, Raw: true}
		// The end of the context ends the session; what the library would do is
		// to end the process, and with it what else is to be put in order.
		terminal.Parent = interrupt.New(func(os.Signal) {})
		defer endAtSignal(end).stop()
		// A terminal has one output.
		streams = remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Tty: true, TerminalSizeQueue: sizesOf(&terminal)}
	case o.tty && !o.quiet:
		e.note("no terminal is used: the input is not one")
	}
	executor, err := c.executor(t, o.command, &v1alpha1.WindowsInstanceExecOptions{
		Stdin: streams.Stdin != nil, Stdout: true, Stderr: !streams.Tty, TTY: streams.Tty,
	})
	if err != nil {
		return err
	}
	err = terminal.Safe(func() error {
		// Before the streams begin, the library waits for the server without regard to ctx.
		ended := make(chan error, 1)
		go func() { ended <- executor.StreamWithContext(ctx, streams) }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return o.ended(err)
}

func (c *client) executor(t target, command []string, options *v1alpha1.WindowsInstanceExecOptions) (remotecommand.Executor, error) {
	url := c.streamURL(t, "exec", options)
	// One by one, because an empty argument is an argument and no missing parameter.
	query := url.Query()
	for _, argument := range command {
		query.Add("command", argument)
	}
	url.RawQuery = query.Encode()
	return remotecommand.NewWebSocketExecutor(c.config, "GET", url.String())
}

// ended is how the plugin ends when the program on the host did.
func (o *execOptions) ended(err error) error {
	if upgrade, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		return upgrade.Cause
	}
	var exit clientexec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	ended := &ExitError{Code: exit.ExitStatus()}
	switch {
	case o.quiet:
	case ended.Code == otherExitCode:
		ended.Err = fmt.Errorf("the program ended with exit code %d, or with one that has more than eight bits, as after a crash", otherExitCode)
	default:
		ended.Err = fmt.Errorf("the program ended with exit code %d", ended.Code)
	}
	return ended
}

// otherExitCode also stands for each exit code that has more than the eight bits that the protocol has for it; those of Windows have 32.
const otherExitCode = 255

// signalEnd ends a session at the signals that the library keeps from ending the process while a terminal is raw, and that nobody else
// waits for, with the exit code that a shell gives a process that the signal ended. One of them comes from a write to a pipe that nobody
// reads any more, such as head, and would end the process within the write.
type signalEnd chan os.Signal

func endAtSignal(end context.CancelCauseFunc) signalEnd {
	signals := make(signalEnd, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	go func() {
		if number, ok := (<-signals).(syscall.Signal); ok { // not after the channel was closed
			end(&ExitError{Code: 128 + int(number)})
		}
	}()
	return signals
}

func (s signalEnd) stop() {
	signal.Stop(s)
	close(s)
}

// sizesOf are the sizes of a terminal from now on, the present one first. Where the output is none, such as a pipe to tee, they are
// those of the terminal that the input is. Nil: they are not known.
func sizesOf(terminal *term.TTY) remotecommand.TerminalSizeQueue {
	if in, ok := terminal.In.(io.Writer); ok && !terminal.IsTerminalOut() {
		terminal.Out = in
	}
	queue := terminal.MonitorSize(terminal.GetSize())
	if queue == nil {
		return nil
	}
	return sizes{queue}
}

// sizes hands on the sizes of a terminal.
type sizes struct{ queue term.TerminalSizeQueue }

// Next implements [remotecommand.TerminalSizeQueue].
func (s sizes) Next() *remotecommand.TerminalSize {
	size := s.queue.Next()
	if size == nil {
		return nil
	}
	return &remotecommand.TerminalSize{Width: size.Width, Height: size.Height}
}
