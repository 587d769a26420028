// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

// outputs maps the values of output to those of the agent. short and cat are
// what `oc adm node-logs --output` knows for text.
var outputs = map[string]string{
	"": api.LogOutputText, "text": api.LogOutputText, "short": api.LogOutputText, "cat": api.LogOutputText,
	"json": api.LogOutputJSON,
}

// relativeTime is how `oc adm node-logs` writes a time relative to now.
var relativeTime = regexp.MustCompile(`^-(\d{1,9})(s|m|h|d)$`)

// units are the lengths of the units of relativeTime.
var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// logRequest turns the query parameters of a log request into what the agent is
// asked, with both spellings of each parameter brought together. now is the time
// that relative times are relative to.
func logRequest(o *windows.WindowsInstanceLogOptions, now time.Time) (api.LogRequest, field.ErrorList) {
	b := logRequestBuilder{now: now}
	request := api.LogRequest{
		Queries:       b.queries(o.Query, o.Unit),
		SinceTime:     timeOf(o.SinceTime),
		UntilTime:     timeOf(o.UntilTime),
		SinceSeconds:  o.SinceSeconds,
		TailLines:     b.either(o.TailLines, o.Tail, "tailLines", "tail"),
		Pattern:       b.pattern(o.Pattern, o.Grep),
		CaseSensitive: o.CaseSensitive == nil || *o.CaseSensitive,
		Follow:        o.Follow,
		Previous:      o.Previous,
		Timestamps:    o.Timestamps,
		LimitBytes:    o.LimitBytes,
		Cursor:        o.Cursor,
		// A follow can end at any time for reasons of ours; then its reader needs
		// to know where to continue.
		EmitCursor: o.Follow,
	}
	b.since(&request, o.Since)
	b.until(&request, o.Until)
	b.boot(&request, o.Boot)
	b.output(&request, o.Output)
	b.check(&request)
	return request, b.errs
}

// logRequestBuilder collects what is wrong with the parameters.
type logRequestBuilder struct {
	now  time.Time
	errs field.ErrorList
}

func (b *logRequestBuilder) invalid(name string, value any, format string, args ...any) {
	b.errs = append(b.errs, field.Invalid(field.NewPath(name), value, fmt.Sprintf(format, args...)))
}

func (b *logRequestBuilder) queries(query, unit []string) []string {
	for i, u := range unit {
		if strings.ContainsAny(u, `/\`) {
			b.errs = append(b.errs, field.Invalid(field.NewPath("unit").Index(i), u, "must be the name of a service; use query for files and event channels"))
		}
	}
	all := append(append([]string(nil), query...), unit...)
	for i, q := range all {
		if q == "" {
			b.errs = append(b.errs, field.Required(field.NewPath("query").Index(i), "leave query out altogether for an index of what there is"))
		}
	}
	if len(all) > api.MaxLogQueries {
		b.errs = append(b.errs, field.TooMany(field.NewPath("query"), len(all), api.MaxLogQueries))
	}
	return all
}

// either returns the one of two spellings of a number of lines that is set.
func (b *logRequestBuilder) either(first, second *int64, firstName, secondName string) *int64 {
	if first != nil && second != nil && *first != *second {
		b.invalid(secondName, *second, "is another spelling of %s: set only one of them", firstName)
	}
	if first == nil {
		first = second
	}
	switch {
	case first == nil:
	case *first < 0:
		b.invalid(firstName, *first, "must not be negative")
	case *first > api.MaxLogTailLines:
		b.invalid(firstName, *first, "must be at most %d", api.MaxLogTailLines)
	}
	return first
}

func (b *logRequestBuilder) pattern(pattern, grep string) string {
	name := "pattern"
	if pattern != "" && grep != "" && pattern != grep {
		b.invalid("grep", grep, "is another spelling of pattern: set only one of them")
	}
	if pattern == "" {
		pattern, name = grep, "grep"
	}
	if len(pattern) > api.MaxLogPatternBytes {
		b.errs = append(b.errs, field.TooLong(field.NewPath(name), pattern, api.MaxLogPatternBytes))
	} else if _, err := api.CheckLogPattern(pattern); err != nil {
		b.invalid(name, pattern, "%v", err)
	}
	return pattern
}

func (b *logRequestBuilder) since(request *api.LogRequest, since string) {
	if request.SinceTime != nil && request.SinceSeconds != nil {
		b.invalid("sinceSeconds", *request.SinceSeconds, "must not be set together with sinceTime")
	}
	if request.SinceSeconds != nil && *request.SinceSeconds < 1 {
		b.invalid("sinceSeconds", *request.SinceSeconds, "must be greater than 0")
	}
	if since == "" {
		return
	}
	if request.SinceTime != nil || request.SinceSeconds != nil {
		b.invalid("since", since, "must not be set together with sinceTime or sinceSeconds")
		return
	}
	// A relative begin is left to the host, whose clock the lines were stamped by.
	if ago, ok := parseRelative(since); ok {
		seconds := max(1, int64(ago/time.Second))
		request.SinceSeconds = &seconds
		return
	}
	request.SinceTime = b.absolute("since", since)
}

func (b *logRequestBuilder) until(request *api.LogRequest, until string) {
	if until == "" {
		return
	}
	if request.UntilTime != nil {
		b.invalid("until", until, "must not be set together with untilTime")
		return
	}
	if ago, ok := parseRelative(until); ok {
		t := b.now.Add(-ago)
		request.UntilTime = &t
		return
	}
	request.UntilTime = b.absolute("until", until)
}

func (b *logRequestBuilder) boot(request *api.LogRequest, boot *int64) {
	if boot == nil {
		return
	}
	if *boot > 0 || *boot < -100 {
		b.invalid("boot", *boot, "must be 0 for the current boot, or down to -100 for earlier ones")
		return
	}
	n := int(*boot)
	request.Boot = &n
}

func (b *logRequestBuilder) output(request *api.LogRequest, output string) {
	format, ok := outputs[output]
	if !ok {
		b.errs = append(b.errs, field.NotSupported(field.NewPath("output"), output, []string{"text", "json"}))
	}
	request.Output = format
}

// check checks the rules over several parameters.
func (b *logRequestBuilder) check(r *api.LogRequest) {
	if r.SinceTime != nil && r.UntilTime != nil && r.UntilTime.Before(*r.SinceTime) {
		b.invalid("untilTime", r.UntilTime.Format(time.RFC3339), "must not be before sinceTime")
	}
	if r.LimitBytes != nil && *r.LimitBytes < 1 {
		b.invalid("limitBytes", *r.LimitBytes, "must be greater than 0")
	}
	if r.Previous && r.Follow {
		b.invalid("follow", true, "must not be set together with previous: a rotated file does not grow")
	}
	if r.Follow && len(r.Queries) == 0 {
		b.errs = append(b.errs, field.Required(field.NewPath("query"), "an index cannot be followed"))
	}
	if r.Cursor == "" {
		return
	}
	for _, option := range []struct {
		name string
		set  bool
	}{
		{"sinceTime", r.SinceTime != nil}, {"sinceSeconds", r.SinceSeconds != nil}, {"tailLines", r.TailLines != nil},
		{"boot", r.Boot != nil}, {"previous", r.Previous},
	} {
		if option.set {
			b.errs = append(b.errs, field.Forbidden(field.NewPath(option.name), "must not be set together with cursor, which says where to begin"))
		}
	}
	if len(r.Cursor) > api.MaxLogCursorBytes {
		b.errs = append(b.errs, field.TooLong(field.NewPath("cursor"), "", api.MaxLogCursorBytes))
	}
}

// absolute parses the forms of an absolute time that `oc adm node-logs` takes.
// Without a time zone it is UTC.
func (b *logRequestBuilder) absolute(name, value string) *time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, value); err == nil {
			return &t
		}
	}
	b.invalid(name, value, `must be a time such as 2006-01-02T15:04:05Z, "2006-01-02 15:04:05" or 2006-01-02, or relative to now such as -5m, -2h or -1d`)
	return nil
}

func parseRelative(value string) (time.Duration, bool) {
	m := relativeTime.FindStringSubmatch(value)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > int64(100*365*24*time.Hour/units[m[2]]) {
		return 0, false
	}
	return time.Duration(n) * units[m[2]], true
}

func timeOf(t *metav1.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	return &t.Time
}
