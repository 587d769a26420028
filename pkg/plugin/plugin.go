// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
)

// env is what all commands have in common. It is safe for concurrent use but for the
// streams, which [env.each] hands out one by one.
type env struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	// terminal says that Out is a terminal, live that ErrOut is one that lines can be rewritten on.
	terminal, live bool
	// labeled says that each line has the name of its host before it.
	labeled bool
	// above, when not nil, shows a text above lines that are drawn again on ErrOut.
	above func(text string)
	// collect, when not nil, takes the objects that are printed of several hosts, see
	// [outputFlags.eachSelected].
	collect func(runtime.Object) error
}

// Run runs the plugin with the arguments after its name until it is done or ctx is. It
// returns the code to exit with, see [ExitError], and has said on streams.ErrOut what
// went wrong.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	cmd := NewCommand(streams) //nolint:contextcheck // completions use the context of their command
	cmd.SetArgs(args)
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	var exit *ExitError
	if !errors.As(err, &exit) {
		exit = &ExitError{Code: ExitFailure, Err: err}
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			exit = &ExitError{Code: ExitInterrupted}
			_ = errors.As(context.Cause(ctx), &exit) // only what ended ctx knows of another code
		}
	}
	if exit.Err != nil {
		_, _ = fmt.Fprintln(streams.ErrOut, visible(explain(exit.Err)))
	}
	return exit.Code
}

// NewCommand returns the plugin as a command.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newCommand(newEnv(streams))
}

func newEnv(streams genericiooptions.IOStreams) *env {
	e := &env{
		IOStreams: streams, config: genericclioptions.NewConfigFlags(true),
		terminal: printers.IsTerminal(streams.Out), live: printers.IsTerminal(streams.ErrOut) && os.Getenv("TERM") != "dumb",
	}
	e.config.WrapConfigFn = func(config *rest.Config) *rest.Config {
		// What protects the server is the number of requests at once, and
		// the server's own limits.
		config.QPS = -1
		config.WarningHandler = rest.NewWarningWriter(&warningWriter{e}, rest.WarningWriterOptions{Deduplicate: true})
		return config
	}
	return e
}

func newCommand(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-windows",
		Short: "Work with the Windows hosts of a cluster",
		Long: `Work with the Windows Server hosts of a cluster: see them, read their logs, log in,
inspect and check them, drain and reboot them.

Everything goes through the API server of the cluster; no host has to be reachable from here,
and no key of a host is needed. A host is named by its WindowsInstance or by its Node.

Exit codes: 0 success; 1 error; 2 a check did not pass; 3 an operation failed; 4 it was
canceled; 5 --wait-timeout, or --timeout of rollout status, is over and it continues; 6 another
operation is in the way; 130 interrupted; 143 terminated. exec and shell: the code of the program on the host.`,
		Example: `  kubectl windows get
  kubectl windows logs win-6 kubelet -f
  kubectl windows shell win-6
  kubectl windows drain win-6`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl windows"},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	e.config.AddFlags(root.PersistentFlags())
	addVerbosity(e, root)
	e.completeFlag(root, "namespace", namespaces)
	root.AddGroup(
		&cobra.Group{ID: groupSee, Title: "See:"},
		&cobra.Group{ID: groupHost, Title: "On the host:"},
		&cobra.Group{ID: groupAct, Title: "Act:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		groupSee:  {newGet(e), newDescribe(e), newLogs(e), newInspect(e), newCheck(e), newTop(e)},
		groupHost: {newExec(e), newShell(e), newPortForward(e), newRDP(e)},
		groupAct:  {newDrain(e), newUncordon(e), newReboot(e), newReconfigure(e), newAdopt(e), newRelease(e), newCancel(e), newTrustHostKey(e), newRollout(e)},
	} {
		for _, cmd := range commands {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersion(e))
	return root
}

// Groups of commands in the help.
const (
	groupSee  = "see"
	groupHost = "host"
	groupAct  = "act"
)

// warningWriter takes what the API server warns of.
type warningWriter struct{ e *env }

// Write implements [io.Writer]. Each is one warning.
func (w *warningWriter) Write(p []byte) (int, error) {
	if w.e.above == nil {
		return w.e.ErrOut.Write(p)
	}
	w.e.above(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// note writes a line to the error stream that is no error. That it cannot be written is
// ignored. What hosts and other people say in it does not act on the terminal, nor in print.
func (e *env) note(format string, args ...any) {
	_, _ = fmt.Fprintln(e.ErrOut, visible(fmt.Sprintf(format, args...)))
}

// print writes an answer.
func (e *env) print(text string) error {
	if _, err := fmt.Fprint(e.Out, visible(text)); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}
