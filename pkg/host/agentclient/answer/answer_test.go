// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package answer

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestCleanText(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		limit    int
		want     string
	}{
		{"as it is", "Windows Server 2022 ÄÖ 漢字\tx\n", 100, "Windows Server 2022 ÄÖ 漢字\tx\n"},
		{"escape sequence", "a\x1b[31mb\r\x00\u0085", 100, "a?[31mb???"},
		{"right to left", "exe.\u202efdp", 100, "exe.?fdp"},
		{"not UTF-8", "a\xffb\xc3", 100, "a?b?"},
		{"cut", "abcdef", 5, "ab…"},
		{"cut within a character", "abäcdef", 6, "ab…"},
		{"just short enough", "abcde", 5, "abcde"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Text(tt.in, tt.limit); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := Line("a\nb\tc", 10); got != "a b c" {
		t.Errorf("got %q", got)
	}
}

func TestCleanFacts(t *testing.T) {
	facts := &api.Facts{
		CPUs:   -4,
		System: api.SystemFacts{Product: strings.Repeat("ä", 1000), Build: -1, Revision: -1},
		Boot:   api.BootFacts{UptimeSeconds: math.MaxInt64},
		Time:   api.TimeFacts{Now: time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))},
		Network: api.NetworkFacts{
			Interfaces: []api.Interface{{MTU: -1, Addresses: make([]string, 1000)}},
			Listening:  []api.Listener{{Port: -1}, {Port: 22}, {Port: 1 << 40}},
		},
		Services:     make([]api.Service, 1000),
		RecentErrors: []api.LoggedError{{Source: "a\nb", Message: "a\nb"}},
		Environment:  map[string]string{"NO_PROXY\x1b": "x"},
	}
	facts.Services[3].Name, facts.Services[4].Name = "kubelet", "kubelet"
	cleanFacts(facts)
	checkBounds(t, reflect.ValueOf(facts), "")
	if facts.CPUs != 0 || facts.System.Build != 0 || facts.Boot.UptimeSeconds != math.MaxInt64/int64(time.Second) || !facts.Time.Now.IsZero() {
		t.Errorf("got %+v", facts)
	}
	if n := facts.Network; len(n.Interfaces[0].Addresses) != Usual.Items || n.Interfaces[0].MTU != 0 || len(n.Listening) != 1 || n.Listening[0].Port != 22 {
		t.Errorf("got %+v", n)
	}
	if len(facts.Services) != 1 || facts.Services[0].Name != "kubelet" {
		t.Errorf("got services %+v", facts.Services)
	}
	if e := facts.RecentErrors[0]; e.Source != "a b" || e.Message != "a\nb" {
		t.Errorf("got %+v", e)
	}
	if facts.Environment["NO_PROXY?"] != "x" {
		t.Errorf("got environment %q", facts.Environment)
	}
}

// TestClockSkewOfCenturies: durations end at 292 years.
func TestClockSkewOfCenturies(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	theirs := api.TimeFacts{Now: time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)}
	if got := clockSkew(theirs, Exchange{now, now}); got < 200*365*24*time.Hour {
		t.Errorf("got %s", got)
	}
}

// FuzzAnswers reads whatever a host may answer. It must not panic, and what it takes must
// fit into the API: bounded, valid UTF-8, nothing that terminals act upon, no negative
// sizes, times that can be written.
func FuzzAnswers(f *testing.F) {
	whole, err := json.Marshal(&api.Facts{
		Agent: api.Version{Protocol: 1, Version: "v1"}, CPUs: 4,
		Time:         api.TimeFacts{Now: time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC), Zone: "UTC"},
		Disks:        []api.Disk{{Path: `C:\`, TotalBytes: math.MaxUint64}},
		Services:     []api.Service{{Name: "kubelet", State: "Running"}},
		Network:      api.NetworkFacts{Interfaces: []api.Interface{{Name: "Ethernet", MTU: 1500}}, Listening: []api.Listener{{Port: 22}}},
		Certificates: []api.Certificate{{Path: "x", NotAfter: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)}},
		RecentErrors: []api.LoggedError{{Source: "a", Message: "b"}},
		Environment:  map[string]string{"NO_PROXY": "x"},
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(whole), `{}`, `null`, `[]`, "\x00", `{"cpus":-1,"boot":{"uptimeSeconds":9223372036854775807}}`,
		`{"time":{"now":"9999-12-31T23:59:59-23:59"},"boot":{"time":"0000-01-01T00:00:00+23:59","id":"\u001b"}}`,
		`{"name":{"hostname":"\ud800"},"memory":{"totalBytes":18446744073709551615}}`,
		`{"id":"one","bootID":"one","restarted":true}`, `{"changed":[{"destination":"10.0.0.0/8","gateway":"fe80::1%x"}]}`,
		`{"protocol":1,"error":{"code":404,"message":"\u202e"}}`, `{"network":{"interfaces":[{"mtu":-1}],"listening":[{"port":-1}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var facts api.Facts
		if Decode(data, &facts, Usual) == nil {
			checkBounds(t, reflect.ValueOf(&facts), "")
			now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
			inspection := Inspection(&facts, Exchange{now, now})
			checkBounds(t, reflect.ValueOf(inspection), "")
			written, err := json.Marshal(inspection)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(written, &v1alpha1.WindowsInstanceInspection{}); err != nil {
				t.Errorf("the inspection cannot be read again: %v", err)
			}
		}
		var boot api.BootFacts
		if Decode(data, &boot, Usual) == nil && (boot.ID == "" || len(boot.ID) > MaxBootID) {
			t.Errorf("boot %q", boot.ID)
		}
		var restart api.RestartAnswer
		if Decode(data, &restart, Usual) == nil && (restart.BootID == "" || len(restart.BootID) > MaxBootID) {
			t.Errorf("boot %q", restart.BootID)
		}
		var routes api.RoutesAnswer
		if Decode(data, &routes, Usual) == nil && len(routes.Changed) > Usual.Items {
			t.Errorf("%d routes", len(routes.Changed))
		}
		if refusal, err := LogHeader(data); err == nil && refusal != nil {
			checkBounds(t, reflect.ValueOf(refusal), "")
			if refusal.Code < 400 || refusal.Code > 599 {
				t.Errorf("code %d", refusal.Code)
			}
		}
	})
}

// checkBounds fails for everything below v that does not fit into the API.
func checkBounds(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			checkBounds(t, v.Elem(), path)
		}
	case reflect.String:
		s := v.String()
		if len(s) > MaxText || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
			return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
		}) {
			t.Errorf("%s is %d bytes: %.100q", path, len(s), s)
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if v.Int() < 0 && !strings.HasSuffix(path, "OffsetSeconds") && !strings.Contains(path, "ClockSkew") &&
			!strings.HasSuffix(path, "Protocol") && !strings.HasSuffix(path, "Index") {
			t.Errorf("%s is %d", path, v.Int())
		}
	case reflect.Slice:
		if v.Len() > Usual.Items {
			t.Errorf("%s has %d items", path, v.Len())
		}
		for i := range v.Len() {
			checkBounds(t, v.Index(i), path)
		}
	case reflect.Map:
		if v.Len() > Usual.Items {
			t.Errorf("%s has %d items", path, v.Len())
		}
		for _, key := range v.MapKeys() {
			checkBounds(t, key, path)
			checkBounds(t, v.MapIndex(key), path)
		}
	case reflect.Struct:
		if at, ok := reflect.TypeAssert[time.Time](v); ok {
			if !representable(at) {
				t.Errorf("%s is %s", path, at)
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				checkBounds(t, v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		}
	}
}
