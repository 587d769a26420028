// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openshift/windows-instance-api/pkg/agent/api"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// newHostileSite is a host on which something else is in the place of the agent. It answers
// whatever it is asked as answer writes it, and goes on as long as somebody reads.
func newHostileSite(t *testing.T, answer func(w io.Writer)) *site {
	t.Helper()
	s := newSite(t, winhost.InProcessOptions{Command: func(_ context.Context, c winhost.CommandLine) (uint32, bool) {
		_, _ = bufio.NewReader(c.Stdin).ReadString('\n') // the request, if there is one
		answer(c.Stdout)
		return 0, true
	}})
	s.access.placed[placeKey(address(s.instance))] = "hostile"
	return s
}

// endless writes until nobody reads any more.
func endless(w io.Writer) {
	line := bytes.Repeat([]byte("x"), 32<<10)
	for {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

func mustTarget(t *testing.T, s *site) ssh.Target {
	t.Helper()
	target, err := s.access.target(t.Context(), s.instance)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestEndlessAnswers: what a host sends without an end is not kept.
func TestEndlessAnswers(t *testing.T) {
	for name, use := range map[string]func(s *site) error{
		"facts":   func(s *site) error { _, err := s.access.Facts(t.Context(), s.instance); return err },
		"inspect": func(s *site) error { _, err := s.access.Inspect(t.Context(), s.instance); return err },
		"boot":    func(s *site) error { _, err := s.access.BootID(t.Context(), s.instance); return err },
		"restart": func(s *site) error {
			_, err := s.access.Restart(t.Context(), s.instance, api.RestartRequest{BootID: "one"})
			return err
		},
		"routes": func(s *site) error { _, err := s.access.EnsureRoutes(t.Context(), s.instance, nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := newHostileSite(t, endless)
			err := use(s)
			var failed *AgentError
			if want := fmt.Sprintf("its answer to %q has more than %d bytes", name, usual.bytes); !errors.As(err, &failed) || failed.Step != StepRun || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			// It was there, and is not put there again.
			if n := len(s.host.Commands()); n != 1 {
				t.Errorf("%d commands were run: %q", n, s.host.Commands())
			}
		})
	}
	t.Run("logs", func(t *testing.T) {
		s := newHostileSite(t, endless)
		_, err := s.access.openLog(t.Context(), mustTarget(t, s), api.LogRequest{})
		if failed := (*AgentError)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), "more than") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("version", func(t *testing.T) {
		s := newHostileSite(t, endless)
		err := s.access.verifyAgent(t.Context(), mustTarget(t, s), "hostile", agentBuild{})
		if failed := (*AgentError)(nil); !errors.As(err, &failed) || failed.Step != StepVerify || !strings.Contains(err.Error(), "has more than 4096 bytes") {
			t.Errorf("got %v", err)
		}
	})
}

// TestHostileAnswers: an answer that is small enough can still not be what it should be.
func TestHostileAnswers(t *testing.T) {
	// Asked once: the second time our agent would have been put there.
	boot := func(s *site) error {
		_, err := s.access.askOnce(t.Context(), mustTarget(t, s), question{command: api.CommandBoot}, &api.BootFacts{})
		return err
	}
	logs := func(s *site) error {
		_, err := s.access.openLog(t.Context(), mustTarget(t, s), api.LogRequest{})
		return err
	}
	for _, tt := range []struct {
		name   string
		answer string
		use    func(s *site) error
		want   string
	}{
		{"no boot", `{}`, boot, "does not say which boot"},
		{"boot that is too long", fmt.Sprintf(`{"id":%q}`, strings.Repeat("x", maxBootID+1)), boot, "is no name of one"},
		{"boot that terminals act upon", `{"id":"\u001b[2J"}`, boot, "is no name of one"},
		{"not JSON", "\x00", boot, "cannot be read"},
		{
			"more objects than there can be", `{"id":"one","x":[` + strings.Repeat("{},", usual.objects) + `{}]}`, boot,
			"8194 objects",
		},
		{
			"route that was not asked for", `{"changed":[{"destination":"0.0.0.0/0"}]}`,
			func(s *site) error { _, err := s.access.EnsureRoutes(t.Context(), s.instance, nil); return err },
			"0.0.0.0/0, which it was not asked for",
		},
		{"log refused with a code of another server", `{"protocol":1,"error":{"code":401,"message":"log in again"}}` + "\n", logs, "refuses with the code 401"},
		{"log refused with no code at all", `{"protocol":1,"error":{"code":7}}` + "\n", logs, "refuses with the code 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newHostileSite(t, func(w io.Writer) { _, _ = io.WriteString(w, tt.answer) })
			err := tt.use(s)
			if failed := (*AgentError)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

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
			if got := cleanText(tt.in, tt.limit); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := cleanLine("a\nb\tc", 10); got != "a b c" {
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
	if n := facts.Network; len(n.Interfaces[0].Addresses) != usual.items || n.Interfaces[0].MTU != 0 || len(n.Listening) != 1 || n.Listening[0].Port != 22 {
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
	if got := clockSkew(theirs, exchange{now, now}); got < 200*365*24*time.Hour {
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
		if decodeAnswer(data, &facts, usual) == nil {
			checkBounds(t, reflect.ValueOf(&facts), "")
			now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
			inspection := inspectionOf(&facts, exchange{now, now})
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
		if decodeAnswer(data, &boot, usual) == nil && (boot.ID == "" || len(boot.ID) > maxBootID) {
			t.Errorf("boot %q", boot.ID)
		}
		var restart api.RestartAnswer
		if decodeAnswer(data, &restart, usual) == nil && (restart.BootID == "" || len(restart.BootID) > maxBootID) {
			t.Errorf("boot %q", restart.BootID)
		}
		var routes api.RoutesAnswer
		if decodeAnswer(data, &routes, usual) == nil && len(routes.Changed) > usual.items {
			t.Errorf("%d routes", len(routes.Changed))
		}
		if refusal, err := decodeLogHeader(data); err == nil && refusal != nil {
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
		if len(s) > maxText || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
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
		if v.Len() > usual.items {
			t.Errorf("%s has %d items", path, v.Len())
		}
		for i := range v.Len() {
			checkBounds(t, v.Index(i), path)
		}
	case reflect.Map:
		if v.Len() > usual.items {
			t.Errorf("%s has %d items", path, v.Len())
		}
		for _, key := range v.MapKeys() {
			checkBounds(t, key, path)
			checkBounds(t, v.MapIndex(key), path)
		}
	case reflect.Struct:
		if at, ok := v.Interface().(time.Time); ok {
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
