// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// parse goes the way of a request: from a query string over the defaults.
func parse(t testing.TB, codec runtime.ParameterCodec, query string) (api.LogRequest, []string) {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	options, _, _ := (*LogREST)(nil).NewGetOptions()
	if err := codec.DecodeParameters(values, v1alpha1.SchemeGroupVersion, options); err != nil {
		t.Fatal(err)
	}
	request, errs := logRequest(options.(*windows.WindowsInstanceLogOptions), now)
	var causes []string
	for _, err := range errs {
		causes = append(causes, string(err.Type)+" "+err.Field)
		if err.ErrorBody() == "" {
			t.Errorf("%v says nothing", err)
		}
	}
	return request, causes
}

func TestLogRequest(t *testing.T) {
	codec := runtime.NewParameterCodec(newScheme())
	number := func(n int64) *int64 { return &n }
	at := func(hour, minute int) *time.Time {
		t := time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC)
		return &t
	}
	boot := func(n int) *int { return &n }
	type request = api.LogRequest
	for _, test := range []struct {
		query string
		want  func(*request) // what differs from a request with defaults only
	}{
		{"", func(*request) {}},
		{"query=kubelet", func(r *request) { r.Queries = []string{"kubelet"} }},
		{"query=kubelet&query=eventlog/System&unit=containerd", func(r *request) { r.Queries = []string{"kubelet", "eventlog/System", "containerd"} }},
		{"query=kubelet&follow=true", func(r *request) { r.Queries, r.Follow, r.EmitCursor = []string{"kubelet"}, true, true }},
		{"sinceTime=2026-03-01T10:00:00Z", func(r *request) { r.SinceTime = at(10, 0) }},
		{"sinceTime=2026-03-01T10:00:00Z&untilTime=2026-03-01T10:00:00Z", func(r *request) { r.SinceTime, r.UntilTime = at(10, 0), at(10, 0) }},
		{"sinceSeconds=1", func(r *request) { r.SinceSeconds = number(1) }},
		{"since=-90s", func(r *request) { r.SinceSeconds = number(90) }},
		{"since=-5m", func(r *request) { r.SinceSeconds = number(300) }},
		{"since=-2h", func(r *request) { r.SinceSeconds = number(7200) }},
		{"since=-1d", func(r *request) { r.SinceSeconds = number(86400) }},
		{"since=-0s", func(r *request) { r.SinceSeconds = number(1) }},
		{"since=2026-03-01T11:30:00%2B01:00", func(r *request) { r.SinceTime = at(10, 30) }},
		{"since=2026-03-01+10:30:00", func(r *request) { r.SinceTime = at(10, 30) }},
		{"since=2026-03-01", func(r *request) { r.SinceTime = at(0, 0) }},
		{"until=-30m", func(r *request) { r.UntilTime = at(11, 30) }},
		{"until=2026-03-01+10:30:00", func(r *request) { r.UntilTime = at(10, 30) }},
		{"tailLines=10", func(r *request) { r.TailLines = number(10) }},
		{"tailLines=0", func(r *request) { r.TailLines = number(0) }},
		{"tail=10", func(r *request) { r.TailLines = number(10) }},
		{"tail=10&tailLines=10", func(r *request) { r.TailLines = number(10) }},
		{"pattern=err.*", func(r *request) { r.Pattern = "err.*" }},
		{"grep=err.*", func(r *request) { r.Pattern = "err.*" }},
		{"grep=a&pattern=a", func(r *request) { r.Pattern = "a" }},
		{"grep=a&case-sensitive=false", func(r *request) { r.Pattern, r.CaseSensitive = "a", false }},
		{"boot=0", func(r *request) { r.Boot = boot(0) }},
		{"boot=-100", func(r *request) { r.Boot = boot(-100) }},
		{"previous=true", func(r *request) { r.Previous = true }},
		{"timestamps=true", func(r *request) { r.Timestamps = true }},
		{"limitBytes=1", func(r *request) { r.LimitBytes = number(1) }},
		{"output=text", func(*request) {}},
		{"output=short", func(*request) {}},
		{"output=cat", func(*request) {}},
		{"output=json", func(r *request) { r.Output = "json" }},
		{"query=a&cursor=x&follow=true", func(r *request) { r.Queries, r.Cursor, r.Follow, r.EmitCursor = []string{"a"}, "x", true, true }},
		{"query=a&cursor=x&limitBytes=5&grep=b&untilTime=2026-03-01T10:00:00Z", func(r *request) {
			r.Queries, r.Cursor, r.LimitBytes, r.Pattern, r.UntilTime = []string{"a"}, "x", number(5), "b", at(10, 0)
		}},
	} {
		t.Run(test.query, func(t *testing.T) {
			want := api.LogRequest{CaseSensitive: true, Output: "text"}
			test.want(&want)
			got, causes := parse(t, codec, test.query)
			if causes != nil {
				t.Fatalf("refused: %v", causes)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("requests differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLogRequestRefusals(t *testing.T) {
	codec := runtime.NewParameterCodec(newScheme())
	for _, test := range []struct {
		query string
		want  []string
	}{
		{"query=", []string{"FieldValueRequired query[0]"}},
		{strings.Repeat("query=a&", 9), []string{"FieldValueTooMany query"}},
		{strings.Repeat("query=a&", 8), nil},
		{strings.Repeat("query=a&", 8) + "unit=b", []string{"FieldValueTooMany query"}},
		{"unit=a/b", []string{"FieldValueInvalid unit[0]"}},
		{`unit=a&unit=a%5Cb`, []string{"FieldValueInvalid unit[1]"}},
		{"follow=true", []string{"FieldValueRequired query"}},
		{"query=a&follow=true&previous=true", []string{"FieldValueInvalid follow"}},

		{"sinceSeconds=0", []string{"FieldValueInvalid sinceSeconds"}},
		{"sinceSeconds=-1", []string{"FieldValueInvalid sinceSeconds"}},
		{"sinceSeconds=1&sinceTime=2026-03-01T10:00:00Z", []string{"FieldValueInvalid sinceSeconds"}},
		{"sinceSeconds=1&since=-1h", []string{"FieldValueInvalid since"}},
		{"sinceTime=2026-03-01T10:00:00Z&since=-1h", []string{"FieldValueInvalid since"}},
		{"since=yesterday", []string{"FieldValueInvalid since"}},
		{"since=5m", []string{"FieldValueInvalid since"}},
		{"since=-5w", []string{"FieldValueInvalid since"}},
		{"since=-1.5h", []string{"FieldValueInvalid since"}},
		{"since=--5m", []string{"FieldValueInvalid since"}},
		{"since=-999999999d", []string{"FieldValueInvalid since"}},
		{"since=-9999999999s", []string{"FieldValueInvalid since"}},
		{"until=-999999999h", []string{"FieldValueInvalid until"}},
		{"until=-1h&untilTime=2026-03-01T10:00:00Z", []string{"FieldValueInvalid until"}},
		{"until=2026-02-30", []string{"FieldValueInvalid until"}},
		{"sinceTime=2026-03-01T10:00:00Z&untilTime=2026-03-01T09:59:59Z", []string{"FieldValueInvalid untilTime"}},
		{"since=2026-03-01&until=2026-02-28", []string{"FieldValueInvalid untilTime"}},

		{"tailLines=1000000", nil},
		{"tailLines=1000001", []string{"FieldValueInvalid tailLines"}},
		{"tail=1000001", []string{"FieldValueInvalid tailLines"}},
		{"query=a&pattern=" + strings.Repeat("a{1000}", 9), nil},
		{"query=a&pattern=" + strings.Repeat("a{1000}", 11), []string{"FieldValueInvalid pattern"}},
		{"query=a&grep=" + strings.Repeat("%5CpL{1000}", 450), []string{"FieldValueInvalid grep"}},
		{"tailLines=-1", []string{"FieldValueInvalid tailLines"}},
		{"tail=-1", []string{"FieldValueInvalid tailLines"}},
		{"tail=1&tailLines=2", []string{"FieldValueInvalid tail"}},
		{"limitBytes=0", []string{"FieldValueInvalid limitBytes"}},
		{"grep=a&pattern=b", []string{"FieldValueInvalid grep"}},
		{"grep=(", []string{"FieldValueInvalid grep"}},
		{"pattern=(?!a)", []string{"FieldValueInvalid pattern"}},
		{"pattern=" + strings.Repeat("a", api.MaxLogPatternBytes), nil},
		{"pattern=" + strings.Repeat("a", api.MaxLogPatternBytes+1), []string{"FieldValueTooLong pattern"}},
		{"boot=1", []string{"FieldValueInvalid boot"}},
		{"boot=-101", []string{"FieldValueInvalid boot"}},
		{"boot=-9223372036854775808", []string{"FieldValueInvalid boot"}},
		{"output=yaml", []string{"FieldValueNotSupported output"}},

		{"query=a&cursor=x&sinceTime=2026-03-01T10:00:00Z&tail=1&boot=0&previous=true", []string{
			"FieldValueForbidden sinceTime", "FieldValueForbidden tailLines", "FieldValueForbidden boot", "FieldValueForbidden previous",
		}},
		{"query=a&cursor=x&sinceSeconds=1", []string{"FieldValueForbidden sinceSeconds"}},
		{"query=a&cursor=" + strings.Repeat("x", api.MaxLogCursorBytes+1), []string{"FieldValueTooLong cursor"}},
		{"query=&tail=-1&limitBytes=0&output=x", []string{
			"FieldValueRequired query[0]", "FieldValueInvalid tailLines", "FieldValueNotSupported output", "FieldValueInvalid limitBytes",
		}},
	} {
		name := test.query
		if len(name) > 60 {
			name = name[:60] + "..."
		}
		t.Run(name, func(t *testing.T) {
			if _, got := parse(t, codec, test.query); !cmp.Equal(test.want, got) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// FuzzLogRequest looks for query strings that make it panic, or that pass although
// they break what the agent relies on.
func FuzzLogRequest(f *testing.F) {
	for _, seed := range []string{
		"query=kubelet&follow=true&tail=5", "unit=kubelet&since=-5m&until=2026-03-01", "query=a&cursor=x&boot=-1",
		"grep=(&case-sensitive=false&output=json", "sinceTime=2026-03-01T10:00:00Z&untilTime=2025-03-01T10:00:00Z&limitBytes=-3",
	} {
		f.Add(seed)
	}
	codec := runtime.NewParameterCodec(newScheme())
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		options, _, _ := (*LogREST)(nil).NewGetOptions()
		if codec.DecodeParameters(values, v1alpha1.SchemeGroupVersion, options) != nil {
			return
		}
		r, errs := logRequest(options.(*windows.WindowsInstanceLogOptions), now)
		if len(errs) > 0 {
			return
		}
		for name, broken := range map[string]bool{
			"queries":      len(r.Queries) > api.MaxLogQueries,
			"follow":       r.Follow && (len(r.Queries) == 0 || r.Previous || !r.EmitCursor),
			"since":        r.SinceTime != nil && r.SinceSeconds != nil,
			"sinceSeconds": r.SinceSeconds != nil && *r.SinceSeconds < 1,
			"window":       r.SinceTime != nil && r.UntilTime != nil && r.UntilTime.Before(*r.SinceTime),
			"tailLines":    r.TailLines != nil && *r.TailLines < 0,
			"limitBytes":   r.LimitBytes != nil && *r.LimitBytes < 1,
			"boot":         r.Boot != nil && *r.Boot > 0,
			"output":       r.Output != api.LogOutputText && r.Output != api.LogOutputJSON,
			"cursor":       r.Cursor != "" && (r.SinceTime != nil || r.SinceSeconds != nil || r.TailLines != nil || r.Boot != nil || r.Previous),
		} {
			if broken {
				t.Errorf("%s is bad in %+v", name, r)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%+v cannot be sent: %v", r, err)
		}
	})
}
