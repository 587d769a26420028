// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1_test

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestFieldLabels(t *testing.T) {
	scheme := newScheme()
	for _, test := range []struct {
		kind  string
		label string
		want  string // part of the error; empty: accepted
	}{
		{"WindowsInstance", "metadata.name", ""},
		{"WindowsInstance", "metadata.namespace", ""},
		{"WindowsInstance", "spec.address", ""},
		{"WindowsInstance", "spec.poolRef.name", ""},
		{"WindowsInstance", "status.node.name", ""},
		{"WindowsInstance", "status.phase", ""},
		{"WindowsInstance", "spec.port", "supported are metadata.name"},
		{"WindowsInstance", "", "not supported"},
		{"WindowsNodePool", "metadata.name", ""},
		{"WindowsNodePool", "metadata.namespace", ""},
		{"WindowsNodePool", "status.phase", "not a known field selector"},
	} {
		t.Run(test.kind+" "+test.label, func(t *testing.T) {
			label, value, err := scheme.ConvertFieldLabel(v1alpha1.SchemeGroupVersion.WithKind(test.kind), test.label, "x")
			if test.want == "" {
				if err != nil || label != test.label || value != "x" {
					t.Errorf("got %q, %q, %v", label, value, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestLogParameters decodes query strings the way the server does.
func TestLogParameters(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC).Local())
	number, zero, negative := int64(7), int64(0), int64(-1)
	yes, no := true, false
	// Every query string but the empty one brings the defaults with it.
	with := func(change func(*windows.WindowsInstanceLogOptions)) windows.WindowsInstanceLogOptions {
		o := windows.WindowsInstanceLogOptions{CaseSensitive: &yes, Output: "text"}
		change(&o)
		return o
	}
	type options = windows.WindowsInstanceLogOptions
	for _, test := range []struct {
		query string
		want  options
	}{
		{"query=kubelet", with(func(o *options) { o.Query = []string{"kubelet"} })},
		{"query=kubelet&query=eventlog/System", with(func(o *options) { o.Query = []string{"kubelet", "eventlog/System"} })},
		{`query=kubelet%5Ckubelet.log`, with(func(o *options) { o.Query = []string{`kubelet\kubelet.log`} })},
		{"unit=kubelet&unit=containerd", with(func(o *options) { o.Unit = []string{"kubelet", "containerd"} })},
		{"sinceTime=2026-03-01T12:30:00Z", with(func(o *options) { o.SinceTime = &at })},
		{"untilTime=2026-03-01T12:30:00Z", with(func(o *options) { o.UntilTime = &at })},
		{"untilTime=2026-03-01T13:30:00%2B01:00", with(func(o *options) { o.UntilTime = &at })},
		{"sinceSeconds=7", with(func(o *options) { o.SinceSeconds = &number })},
		{"since=-5m", with(func(o *options) { o.Since = "-5m" })},
		{"until=-5m", with(func(o *options) { o.Until = "-5m" })},
		{"tailLines=7", with(func(o *options) { o.TailLines = &number })},
		{"tailLines=0", with(func(o *options) { o.TailLines = &zero })},
		{"tail=7", with(func(o *options) { o.Tail = &number })},
		{"pattern=a.b", with(func(o *options) { o.Pattern = "a.b" })},
		{"grep=a.b", with(func(o *options) { o.Grep = "a.b" })},
		{"case-sensitive=false", with(func(o *options) { o.CaseSensitive = &no })},
		{"case-sensitive=0", with(func(o *options) { o.CaseSensitive = &no })},
		{"case-sensitive=true", with(func(*options) {})},
		{"boot=-1", with(func(o *options) { o.Boot = &negative })},
		{"boot=0", with(func(o *options) { o.Boot = &zero })},
		{"follow=true", with(func(o *options) { o.Follow = true })},
		{"follow=false", with(func(*options) {})},
		{"follow", with(func(o *options) { o.Follow = true })},
		{"previous=true", with(func(o *options) { o.Previous = true })},
		{"timestamps=true", with(func(o *options) { o.Timestamps = true })},
		{"limitBytes=7", with(func(o *options) { o.LimitBytes = &number })},
		{"output=json", with(func(o *options) { o.Output = "json" })},
		{"cursor=eyJ9", with(func(o *options) { o.Cursor = "eyJ9" })},
		{"somethingElse=1", with(func(*options) {})},
		// A request without a query string: presetting is left to NewGetOptions.
		{"", options{}},
	} {
		t.Run(test.query, func(t *testing.T) {
			got, err := decodeLogOptions(t, test.query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("options differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadLogParameters(t *testing.T) {
	for _, query := range []string{
		"sinceSeconds=x", "tailLines=x", "tail=1.5", "limitBytes=9223372036854775808", "boot=last",
		"sinceTime=yesterday", "untilTime=2026-03-01",
	} {
		t.Run(query, func(t *testing.T) {
			if got, err := decodeLogOptions(t, query); err == nil {
				t.Errorf("was taken as %+v", got)
			}
		})
	}
}

// TestEveryLogParameterIsDecoded finds parameters that the generated conversion
// from a query string forgets.
func TestEveryLogParameterIsDecoded(t *testing.T) {
	samples := map[reflect.Type]string{
		reflect.TypeFor[string]():       "x",
		reflect.TypeFor[bool]():         "true",
		reflect.TypeFor[*bool]():        "false", // not the default
		reflect.TypeFor[*int64]():       "7",
		reflect.TypeFor[[]string]():     "x",
		reflect.TypeFor[*metav1.Time](): "2026-03-01T12:30:00Z",
	}
	defaulted, err := decodeLogOptions(t, "other=1")
	if err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[v1alpha1.WindowsInstanceLogOptions]().Fields() {
		if field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		t.Run(name, func(t *testing.T) {
			sample, ok := samples[field.Type]
			if !ok {
				t.Fatalf("no sample for type %s", field.Type)
			}
			got, err := decodeLogOptions(t, name+"="+url.QueryEscape(sample))
			if err != nil {
				t.Fatal(err)
			}
			value := reflect.ValueOf(got).FieldByName(field.Name)
			if value.IsZero() || cmp.Equal(defaulted, got) {
				t.Errorf("%s=%s was not taken over", name, sample)
			}
		})
	}
}

func decodeLogOptions(t *testing.T, query string) (windows.WindowsInstanceLogOptions, error) {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	var got windows.WindowsInstanceLogOptions
	err = runtime.NewParameterCodec(newScheme()).DecodeParameters(values, v1alpha1.SchemeGroupVersion, &got)
	return got, err
}
