// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/openshift/windows-instance-api/pkg/plugin/logfollow"
)

// logSubresource is the name under which kube-apiserver lets a log be followed without
// end, see docs/decisions/0003-log-and-logs.md.
const logSubresource = "log"

type logOptions struct {
	selection
	follow, previous, timestamps bool
	since                        time.Duration
	sinceTime, untilTime         string
	tail, limitBytes             int64
	pattern                      string
	ignoreCase                   bool
	boot                         int64
	output                       string
	giveUpAfter                  time.Duration
	raw                          bool
}

func newLogs(e *env) *cobra.Command {
	o := &logOptions{}
	cmd := &cobra.Command{
		Use:   "logs (NAME | -l SELECTOR | --pool POOL | -A) [SOURCE...]",
		Short: "Print logs of a host",
		Long: `Print the logs of a host, live from the host itself, also when its kubelet is dead or never
ran. A SOURCE is a service (kubelet), a file below C:\var\log (kubelet/kubelet.log) or a
channel of the event log (eventlog/System); several are merged by time. Without a SOURCE it
prints an index of the logs.

With -f it continues by itself, without a gap and without a line twice, when the connection is
lost or a server is restarted.

With a selector, all arguments are sources, and each line has the name of the host before it.`,
		Example: `  # What logs there are
  kubectl windows logs win-6

  # The last lines of the kubelet, and those to come
  kubectl windows logs win-6 kubelet --tail=20 -f

  # Two services of the last ten minutes, merged by time
  kubectl windows logs win-6 kubelet containerd --since=10m

  # Errors in the event log, as JSON
  kubectl windows logs win-6 eventlog/System --pattern=error --ignore-case -o json

  # The kubelets of a pool
  kubectl windows logs -A --pool windows-instances kubelet --tail=5`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, e, args) },
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 && !o.selects() {
			return e.completeHost(cmd, args, toComplete)
		}
		return e.complete(cmd, func(ctx context.Context, c *client, _ string) []string {
			if !o.selects() {
				if t, err := c.get(ctx, args[0]); err == nil {
					return logSources(ctx, c, t)
				}
				return nil
			}
			options := o.listOptions()
			options.Limit = 1
			if list, err := c.windows.WindowsInstances(o.namespace(c)).List(ctx, options); err == nil && len(list.Items) > 0 {
				return logSources(ctx, c, target{&list.Items[0]})
			}
			return nil
		}, toComplete)
	}
	o.addFlags(e, cmd)
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "Print new lines as they come, until Ctrl-C.")
	f.BoolVarP(&o.previous, "previous", "p", false, "Read the rotated file before the current one.")
	f.BoolVar(&o.timestamps, "timestamps", false, "Put the time of each line before it.")
	f.DurationVar(&o.since, "since", 0, "Only lines newer than this, by the clock of the host, for example 5s, 2m or 3h. 0: all.")
	f.StringVar(&o.sinceTime, "since-time", "", "Only lines at or after this time (RFC 3339).")
	f.StringVar(&o.untilTime, "until-time", "", "Only lines at or before this time (RFC 3339).")
	f.Int64Var(&o.tail, "tail", -1, "Only the last so many lines. -1: all.")
	f.Int64Var(&o.limitBytes, "limit-bytes", 0, "End after so many bytes. 0: no limit.")
	f.StringVar(&o.pattern, "pattern", "", "Only lines in which this regular expression (RE2) matches.")
	f.BoolVar(&o.ignoreCase, "ignore-case", false, "The pattern does not mind upper and lower case.")
	f.Int64Var(&o.boot, "boot", 0, "Only lines of one boot of the host: 0 is the current one, -1 the one before, and so on.")
	f.StringVarP(&o.output, "output", "o", "text", "text, or json: one object a line.")
	f.DurationVar(&o.giveUpAfter, "give-up-after", 15*time.Minute, "With -f: for how long a log that broke off is retried. 0: forever.")
	f.BoolVar(&o.raw, "raw", false, "Print control characters as they are, also on a terminal, where they act on it. Otherwise a terminal shows them, for example ^[ for escape.")
	o.addParallel(cmd, 50)
	completeWords(cmd, "output", "text", "json")
	return cmd
}

func (o *logOptions) run(cmd *cobra.Command, e *env, args []string) error {
	ctx := cmd.Context()
	c, err := e.client()
	if err != nil {
		return err
	}
	var names []string
	if !o.selects() && len(args) > 0 {
		names, args = args[:1], args[1:]
	}
	query, err := o.query(cmd, args)
	if err != nil {
		return err
	}
	targets, err := c.targets(ctx, names, &o.selection)
	if err != nil {
		return err
	}
	if o.follow && len(targets) > o.parallel {
		return fmt.Errorf("%d hosts are selected and at most %d can be followed at once: select fewer, or raise --max-parallel", len(targets), o.parallel)
	}
	return e.each(ctx, targets, &o.selection, func(ctx context.Context, e *env, t target) (err error) {
		if e.terminal && !o.raw {
			visible := &visibleWriter{to: e.Out}
			own := *e
			own.Out, e = visible, &own
			defer func() {
				if finishErr := visible.finish(); err == nil {
					err = finishErr
				}
			}()
		}
		open := func(ctx context.Context, query url.Values) (io.ReadCloser, error) { return openLog(ctx, c, t, query) }
		if !o.follow {
			return printLog(ctx, e, open, query)
		}
		f := &logfollow.Follower{
			Open: open, Query: query, Out: e.Out, Retry: mayPass, GiveUpAfter: o.giveUpAfter,
			Notice: func(text string) { e.note("# %s: %s", t.Name, text) },
		}
		return f.Run(ctx)
	})
}

// query are the parameters of the request. Values are checked by the server.
func (o *logOptions) query(cmd *cobra.Command, sources []string) (url.Values, error) {
	q := url.Values{}
	for _, source := range sources {
		q.Add("query", source)
	}
	set := func(flag, name, value string) {
		if cmd.Flags().Changed(flag) {
			q.Set(name, value)
		}
	}
	set("previous", "previous", strconv.FormatBool(o.previous))
	set("timestamps", "timestamps", strconv.FormatBool(o.timestamps))
	set("since-time", "sinceTime", o.sinceTime)
	set("until-time", "untilTime", o.untilTime)
	set("pattern", "pattern", o.pattern)
	set("ignore-case", "case-sensitive", strconv.FormatBool(!o.ignoreCase))
	set("boot", "boot", strconv.FormatInt(o.boot, 10))
	set("output", "output", o.output)
	if o.since < 0 {
		return nil, errors.New("--since must not be negative")
	}
	if o.since > 0 {
		q.Set("sinceSeconds", strconv.FormatInt(wholeSeconds(o.since), 10))
	}
	if o.tail >= 0 {
		q.Set("tailLines", strconv.FormatInt(o.tail, 10))
	}
	if o.limitBytes > 0 {
		q.Set("limitBytes", strconv.FormatInt(o.limitBytes, 10))
	}
	switch {
	case !o.follow:
	case len(sources) == 0:
		return nil, errors.New("with -f name a source, for example kubelet; without -f the sources are listed")
	case o.previous:
		return nil, errors.New("a rotated file does not grow: -p and -f exclude each other")
	}
	return q, nil
}

// wholeSeconds rounds up, so that a part of a second is not nothing.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// openLog makes one request for a log.
func openLog(ctx context.Context, c *client, t target, query url.Values) (io.ReadCloser, error) {
	request := c.request(http.MethodGet, t, logSubresource)
	for name, values := range query {
		for _, value := range values {
			request.Param(name, value)
		}
	}
	return request.Stream(ctx)
}

func printLog(ctx context.Context, e *env, open func(context.Context, url.Values) (io.ReadCloser, error), query url.Values) error {
	body, err := open(ctx, query)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(e.Out, body); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("the log broke off: %w", err)
	}
	return nil
}
