// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/logs"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// The content of the host of TestLogOptions, which lives on the morning of 2 January 2024:
// it boots at 3:00 and again at 3:04, and everything is read at 3:05.
const (
	kubelet0    = "I0101 00:00:00.000000    1 a.go:1] zero apple\n"
	kubelet1    = "I0102 03:01:00.000000    1 a.go:1] one apple\n"
	kubelet2    = "I0102 03:02:00.000000    1 a.go:1] two Apple\n"
	kubelet2b   = "  goes on\n"
	kubelet3    = "I0102 03:04:30.000000    1 a.go:1] three apple\n"
	kubelet4    = "I0102 03:04:50.000000    1 a.go:1] four pear\n"
	kubeletAll  = kubelet1 + kubelet2 + kubelet2b + kubelet3 + kubelet4
	containerd1 = `time="2024-01-02T03:01:30Z" level=info msg=first` + "\n"
	containerd2 = `time="2024-01-02T03:04:40Z" level=info msg=second` + "\n"
	event1      = "2024-01-02T03:02:30Z Information Service Control Manager[7036]: The sshd service entered the running state.\n"
	event2      = "2024-01-02T03:04:35Z Error disk[7]: The device has a bad block.\n"
)

func morning(hour, minute, second int) time.Time {
	return time.Date(2024, 1, 2, hour, minute, second, 0, time.UTC)
}

func newLogOptionsHost(t *testing.T) (namespace string) {
	t.Helper()
	var clock atomic.Pointer[time.Time]
	set := func(now time.Time) { clock.Store(&now) }
	set(morning(3, 0, 0))
	host := startHost(t, winhost.Options{InProcess: winhost.InProcessOptions{
		Clock: func() time.Time { return *clock.Load() },
		EventLog: eventLog{"System": {
			{RecordID: 41, Time: morning(3, 2, 30), Channel: "System", Provider: "Service Control Manager", EventID: 7036, Level: "Information", Message: "The sshd service entered the running state.\r\n"},
			{RecordID: 42, Time: morning(3, 4, 35), Channel: "System", Provider: "disk", EventID: 7, Level: "Error", Message: "The device has a bad block."},
		}},
	}})
	set(morning(3, 4, 0))
	reboot(t, host)
	set(morning(3, 5, 0))
	for name, content := range map[string]string{
		"kubelet/kubelet.log":                 kubeletAll,
		"kubelet/kubelet-20240101-000000.log": kubelet0,
		"containerd/containerd.log":           containerd1 + containerd2,
		"setup/utf16.log":                     utf16LE("grüße\r\nзавтра 🪟\r\n"),
		"setup/crlf.log":                      "one\r\ntwo\r\n",
		"setup.log":                           "in the root\n",
	} {
		writeLog(t, host, name, content)
		when := morning(3, 5, 0)
		if content == kubelet0 {
			when = when.AddDate(0, 0, -1)
		}
		if err := os.Chtimes(filepath.Join(host.LogDir(), name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	namespace = newNamespace(t)
	createInstance(t, namespace, "w", host, "")
	waitFor(t, namespace, "w", loggedIn)
	return namespace
}

func TestLogOptions(t *testing.T) {
	t.Parallel()
	ns := newLogOptionsHost(t)
	for _, tc := range []struct {
		name, query, want string
	}{
		{"a service", "query=kubelet", kubeletAll},
		{"a file", "query=kubelet/kubelet.log", kubeletAll},
		{"a file in the spelling of Windows", `query=kubelet\kubelet.log`, kubeletAll},
		{"a file of the root", "query=./setup.log", "in the root\n"},
		{"UTF-16 with CRLF", "query=setup/utf16.log", "grüße\nзавтра 🪟\n"},
		{"CRLF", "query=setup/crlf.log", "one\ntwo\n"},

		{"sinceTime is inclusive", "query=kubelet&sinceTime=2024-01-02T03:02:00Z", kubelet2 + kubelet2b + kubelet3 + kubelet4},
		{"sinceTime in another zone", "query=kubelet&sinceTime=2024-01-02T05:04:30+02:00", kubelet3 + kubelet4},
		{"sinceSeconds by the clock of the host", "query=kubelet&sinceSeconds=30", kubelet3 + kubelet4},
		{"untilTime is inclusive", "query=kubelet&untilTime=2024-01-02T03:02:00Z", kubelet1 + kubelet2 + kubelet2b},
		{"a window of time", "query=kubelet&sinceTime=2024-01-02T03:01:30Z&untilTime=2024-01-02T03:04:30Z", kubelet2 + kubelet2b + kubelet3},
		{"since reaches into rotated files", "query=kubelet&sinceTime=2024-01-01T00:00:00Z&tailLines=100", kubelet0 + kubeletAll},
		{"tailLines", "query=kubelet&tailLines=1", kubelet4},
		{"tailLines counts lines, not records", "query=kubelet&tailLines=3", kubelet2b + kubelet3 + kubelet4},
		{"tailLines reaches into rotated files", "query=kubelet&tailLines=6", kubelet0 + kubeletAll},
		{"tailLines=0", "query=kubelet&tailLines=0", ""},
		{"pattern", "query=kubelet&pattern=apple", kubelet1 + kubelet3},
		{"pattern is a regular expression", `query=kubelet&pattern=] t\w+ [aA]`, kubelet2 + kubelet2b + kubelet3},
		{"pattern looks at whole records", "query=kubelet&pattern=goes on$", kubelet2 + kubelet2b},
		{"pattern comes before tailLines", "query=kubelet&pattern=apple&tailLines=2", kubelet1 + kubelet3},
		{"pattern, whatever the case", "query=kubelet&pattern=APPLE&case-sensitive=false", kubelet1 + kubelet2 + kubelet2b + kubelet3},
		{"pattern, minding the case", "query=kubelet&pattern=APPLE&case-sensitive=true", ""},
		{"this boot", "query=kubelet&boot=0", kubelet3 + kubelet4},
		{"the boot before", "query=kubelet&boot=-1", kubelet1 + kubelet2 + kubelet2b},
		{"previous", "query=kubelet&previous=true", kubelet0},
		{"limitBytes", "query=kubelet&limitBytes=20", kubeletAll[:20]},
		{"limitBytes comes last", "query=kubelet&tailLines=1&limitBytes=5", kubelet4[:5]},
		{
			"timestamps", "query=kubelet&timestamps=true&tailLines=3",
			"2024-01-02T03:02:00Z " + kubelet2b + "2024-01-02T03:04:30Z " + kubelet3 + "2024-01-02T03:04:50Z " + kubelet4,
		},
		{
			"JSON", "query=kubelet&output=json&sinceTime=2024-01-02T03:02:00Z&tailLines=3",
			jsonLine("2024-01-02T03:02:00Z", "kubelet", kubelet2+kubelet2b) + jsonLine("2024-01-02T03:04:30Z", "kubelet", kubelet3) + jsonLine("2024-01-02T03:04:50Z", "kubelet", kubelet4),
		},
		{
			"several sources, merged by time", "query=kubelet&query=containerd&query=eventlog/System&sinceTime=2024-01-02T03:01:30Z",
			"[containerd] " + containerd1 + "[kubelet] " + kubelet2 + "[kubelet] " + kubelet2b + "[eventlog/System] " + event1 +
				"[kubelet] " + kubelet3 + "[eventlog/System] " + event2 + "[containerd] " + containerd2 + "[kubelet] " + kubelet4,
		},
		{"several sources, the last lines of all", "query=kubelet&query=containerd&tailLines=2", "[containerd] " + containerd2 + "[kubelet] " + kubelet4},
		{"an event channel", "query=eventlog/System", event1 + event2},
		{"an event channel, filtered", "query=eventlog/System&pattern=bad block&sinceTime=2024-01-02T03:00:00Z&tailLines=1", event2},
		{
			"events as JSON", "query=eventlog/System&output=json&tailLines=1",
			`{"time":"2024-01-02T03:04:35Z","source":"eventlog/System","message":"The device has a bad block.","level":"Error","eventID":7,"provider":"disk","recordID":42,"channel":"System"}` + "\n",
		},

		{"oc: unit", "unit=kubelet", kubeletAll},
		{"oc: several units", "unit=kubelet&unit=containerd&tail=1", "[kubelet] " + kubelet4},
		{"oc: since and until, absolute", "unit=kubelet&since=2024-01-02 03:02:00&until=2024-01-02 03:04:30", kubelet2 + kubelet2b + kubelet3},
		{"oc: since, relative", "unit=kubelet&since=-30s", kubelet3 + kubelet4},
		{"oc: until, relative", "unit=kubelet&until=-1m", kubeletAll},
		{"oc: grep and tail", "unit=kubelet&grep=apple&tail=1", kubelet3},
		{"oc: grep, whatever the case", "unit=kubelet&grep=PEAR&case-sensitive=false", kubelet4},
		{"oc: boot", "unit=kubelet&boot=0", kubelet3 + kubelet4},
		{"oc: output=short", "unit=kubelet&output=short&tail=1", kubelet4},
		{"oc: output=cat", "unit=kubelet&output=cat&tail=1", kubelet4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, name := range []string{"log", "logs"} {
				a := ask(t, sys, http.MethodGet, subresource(ns, "w", name, encodeQuery(tc.query)))
				if got := a.ok(t); got != tc.want {
					t.Errorf("%s: got\n%s\nwant\n%s", name, got, tc.want)
				}
				want := "text/plain; charset=utf-8"
				if strings.Contains(tc.query, "output=json") {
					want = "application/json"
				}
				if got := a.header.Get("Content-Type"); got != want {
					t.Errorf("%s: Content-Type is %q, want %q", name, got, want)
				}
			}
		})
	}

	t.Run("follow begins with tailLines", func(t *testing.T) {
		f := follow(t, sys, subresource(ns, "w", "log", encodeQuery("query=kubelet&follow=true&pattern=apple&tailLines=1")))
		f.waitFor(t, kubelet3)
		if got := f.out.String(); got != kubelet3 {
			t.Errorf("got\n%s", got)
		}
	})
	t.Run("follow until a time that has passed", func(t *testing.T) {
		f := follow(t, sys, subresource(ns, "w", "log", "query=kubelet&follow=true&output=json&untilTime=2024-01-02T03:01:00Z"))
		f.waitForEnd(t)
		first, rest, _ := strings.Cut(f.out.String(), "\n")
		var end struct{ Cursor string }
		if err := json.Unmarshal([]byte(rest), &end); err != nil || end.Cursor == "" || first+"\n" != jsonLine("2024-01-02T03:01:00Z", "kubelet", kubelet1) {
			t.Errorf("got %v\n%s", err, f.out.String())
		}
	})
	t.Run("cursor", func(t *testing.T) {
		f := follow(t, sys, subresource(ns, "w", "log", "query=kubelet&query=containerd&follow=true&limitBytes=100"))
		f.waitForEnd(t)
		cursor := f.cursor(t)
		rest := ask(t, sys, http.MethodGet, subresource(ns, "w", "log", "query=kubelet&query=containerd&cursor="+cursor)).ok(t)
		all := ask(t, sys, http.MethodGet, subresource(ns, "w", "log", "query=kubelet&query=containerd")).ok(t)
		if got := f.out.String()[:100] + rest; got != all {
			t.Errorf("in two parts it is\n%s\nas a whole\n%s", got, all)
		}
	})
	t.Run("index", func(t *testing.T) {
		out := kubectl(t, "get", "--raw", subresource(ns, "w", "log", "")).ok(t)
		mustSay(t, out, "NAME", "kubelet ", "hybrid-overlay-node", "kubelet/kubelet-20240101-000000.log", "\nsetup.log ", "eventlog/System")
		var index logs.Index
		if err := json.Unmarshal([]byte(kubectl(t, "get", "--raw", subresource(ns, "w", "logs", "output=json")).ok(t)), &index); err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(index.Entries, func(e logs.IndexEntry) bool { return e.Name == "kubelet" })
		if at < 0 || index.Entries[at].Kind != logs.KindService || index.Entries[at].Size != int64(len(kubeletAll)) || index.Entries[at].Modified == nil || !index.Entries[at].Modified.Equal(morning(3, 5, 0)) {
			t.Errorf("the index has %+v", index.Entries)
		}
	})
}

// encodeQuery escapes the values of a query string that is written for people.
func encodeQuery(query string) string {
	values := url.Values{}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		values.Add(name, value)
	}
	return values.Encode()
}

// jsonLine is a record in the output format json.
func jsonLine(when, source, text string) string {
	message, err := json.Marshal(strings.TrimSuffix(text, "\n"))
	if err != nil {
		panic(err) // strings can be encoded
	}
	return fmt.Sprintf(`{"time":%q,"source":%q,"message":%s}`+"\n", when, source, message)
}

// utf16LE is text as Windows programs write it, with a byte order mark.
func utf16LE(text string) string {
	b := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		b = append(b, byte(unit), byte(unit>>8))
	}
	return string(b)
}

// eventLog is an event log that nobody writes to: channels and their events, oldest first.
type eventLog map[string][]logs.Event

var _ logs.EventLog = eventLog{}

func (l eventLog) Channels(context.Context) ([]logs.EventChannel, error) {
	var channels []logs.EventChannel
	for name := range l {
		channels = append(channels, logs.EventChannel{Name: name})
	}
	return channels, nil
}

func (l eventLog) HasProvider(context.Context, string) (bool, error) { return false, nil }

func (l eventLog) Query(_ context.Context, q logs.EventQuery) (logs.EventReader, error) {
	all, ok := l[q.Channel]
	if !ok {
		return nil, logs.ErrNoSuchChannel
	}
	var chosen eventReader
	for i := range all {
		e := &all[i]
		if (q.Provider == "" || e.Provider == q.Provider) && e.RecordID > q.AfterRecord &&
			(q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || !e.Time.After(q.Until)) {
			chosen = append(chosen, e)
		}
	}
	if q.NewestFirst {
		slices.Reverse(chosen)
	}
	return &chosen, nil
}

type eventReader []*logs.Event

func (r *eventReader) Next(context.Context) (*logs.Event, error) {
	if len(*r) == 0 {
		return nil, io.EOF
	}
	e := (*r)[0]
	*r = (*r)[1:]
	return e, nil
}

func (r *eventReader) Close() error { return nil }

// TestLogRefusals asks for what is not served. Every refusal is a Status, before the
// first byte, and tells nothing of what is outside the log directory.
func TestLogRefusals(t *testing.T) {
	t.Parallel()
	const secret = "the secret outside"
	ns, host := newLogHost(t, winhost.Options{})
	writeLog(t, host, "kubelet/kubelet.log", "hello\n")
	outside, err := host.LocalPath(`C:\ProgramData\secret.txt`)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outside, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"absolute.log":         outside,
		"relative.log":         "../../ProgramData/secret.txt",
		"dir":                  filepath.Dir(outside),
		"kube-proxy.log":       outside,
		"passwd.log":           "/etc/passwd",
		"loop.log":             "loop.log",
		"containerd-inner.log": filepath.Join(host.LogDir(), "kubelet", "kubelet.log"),
	} {
		if err := os.Symlink(target, filepath.Join(host.LogDir(), name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(t, sys, http.MethodGet, subresource(ns, "w", "log", "query=containerd-inner")).ok(t); got != "hello\n" {
		t.Errorf("a link within the log directory leads to %q", got)
	}

	const invalid = http.StatusUnprocessableEntity
	for _, tc := range []struct {
		name, query string
		code        int
		reason      metav1.StatusReason
		say         string
	}{
		{"unknown service", "query=nosuch", http.StatusNotFound, metav1.StatusReasonNotFound, "nosuch"},
		{"unknown file", "query=kubelet/nope.log", http.StatusNotFound, metav1.StatusReasonNotFound, "kubelet/nope.log"},
		{"one of several", "query=kubelet&query=nosuch", http.StatusNotFound, metav1.StatusReasonNotFound, "nosuch"},
		{"file that is not there, followed", "query=kubelet/nope.log&follow=true", http.StatusNotFound, metav1.StatusReasonNotFound, "kubelet/nope.log"},
		{"no previous file", "query=kubelet&previous=true", http.StatusNotFound, metav1.StatusReasonNotFound, "kubelet.log"},
		{"event channel without event log", "query=eventlog/System", http.StatusNotImplemented, "NotImplemented", "event log"},

		{"parent", "query=../secret.txt", http.StatusForbidden, metav1.StatusReasonForbidden, `".."`},
		{"parent in the spelling of Windows", `query=..\..\ProgramData\secret.txt`, http.StatusForbidden, metav1.StatusReasonForbidden, `".."`},
		{"parent in between", "query=kubelet/../../../ProgramData/secret.txt", http.StatusForbidden, metav1.StatusReasonForbidden, `".."`},
		{"absolute", "query=/ProgramData/secret.txt", http.StatusForbidden, metav1.StatusReasonForbidden, "absolute"},
		{"absolute in the spelling of Windows", `query=\ProgramData\secret.txt`, http.StatusForbidden, metav1.StatusReasonForbidden, "absolute"},
		{"drive", `query=C:\ProgramData\secret.txt`, http.StatusForbidden, metav1.StatusReasonForbidden, "drive"},
		{"drive without a slash after it", `query=C:..\secret.txt`, http.StatusForbidden, metav1.StatusReasonForbidden, "drive"},
		{"UNC", `query=\\127.0.0.1\C$\ProgramData\secret.txt`, http.StatusForbidden, metav1.StatusReasonForbidden, "network"},
		{"UNC with slashes", `query=//127.0.0.1/C$/ProgramData/secret.txt`, http.StatusForbidden, metav1.StatusReasonForbidden, "network"},
		{"device path", `query=\\.\PhysicalDrive0`, http.StatusForbidden, metav1.StatusReasonForbidden, "device"},
		{"verbatim path", `query=\\?\C:\ProgramData\secret.txt`, http.StatusForbidden, metav1.StatusReasonForbidden, "device"},
		{"device name", "query=kubelet/CON", http.StatusForbidden, metav1.StatusReasonForbidden, "device"},
		{"device name with an extension", "query=./nul.log", http.StatusForbidden, metav1.StatusReasonForbidden, "device"},
		{"device name as a directory", "query=COM1/x", http.StatusForbidden, metav1.StatusReasonForbidden, "device"},
		{"device name as a service", "query=con", http.StatusNotFound, metav1.StatusReasonNotFound, "con"},
		{"alternate stream", "query=kubelet/kubelet.log:hidden", http.StatusForbidden, metav1.StatusReasonForbidden, "alternate data streams"},
		{"alternate stream of the file's own data", "query=kubelet/kubelet.log::$DATA", http.StatusForbidden, metav1.StatusReasonForbidden, "alternate data streams"},
		{"alternate stream of a service", "query=kubelet:hidden", http.StatusBadRequest, metav1.StatusReasonBadRequest, "service name"},
		{"absolute link that leads out", "query=./absolute.log", http.StatusForbidden, metav1.StatusReasonForbidden, "link"},
		{"relative link that leads out", "query=./relative.log", http.StatusForbidden, metav1.StatusReasonForbidden, "link"},
		{"link to a directory outside", "query=dir/secret.txt", http.StatusForbidden, metav1.StatusReasonForbidden, "link"},
		{"link of a service that leads out", "query=kube-proxy", http.StatusForbidden, metav1.StatusReasonForbidden, "link"},
		{"link that leads out, followed", "query=kube-proxy&follow=true", http.StatusForbidden, metav1.StatusReasonForbidden, "link"},
		{"link to this machine's passwords", "query=passwd", http.StatusForbidden, metav1.StatusReasonForbidden, "link"},
		{"link to itself", "query=./loop.log", http.StatusForbidden, metav1.StatusReasonForbidden, "link"},
		{"directory", "query=./kubelet", http.StatusBadRequest, metav1.StatusReasonBadRequest, "directory"},
		{"name that Windows would shorten", "query=kubelet/kubelet.log.", http.StatusBadRequest, metav1.StatusReasonBadRequest, "dot"},
		{"wildcard", "query=kubelet/*.log", http.StatusBadRequest, metav1.StatusReasonBadRequest, "no file name"},
		{"control character", "query=kubelet/a\x01b", http.StatusBadRequest, metav1.StatusReasonBadRequest, "control character"},
		{"query of the event log", "query=eventlog/<QueryList>", http.StatusBadRequest, metav1.StatusReasonBadRequest, "channel"},

		{"negative tailLines", "query=kubelet&tailLines=-1", invalid, metav1.StatusReasonInvalid, "tailLines"},
		{"tailLines that is no number", "query=kubelet&tailLines=x", http.StatusBadRequest, metav1.StatusReasonBadRequest, "x"},
		{"two spellings that differ", "query=kubelet&tailLines=1&tail=2", invalid, metav1.StatusReasonInvalid, "tail"},
		{"no regular expression", "query=kubelet&pattern=(", invalid, metav1.StatusReasonInvalid, "pattern"},
		{"no time", "query=kubelet&since=yesterday", invalid, metav1.StatusReasonInvalid, "since"},
		{"no RFC 3339 time", "query=kubelet&sinceTime=yesterday", http.StatusBadRequest, metav1.StatusReasonBadRequest, "yesterday"},
		{"two beginnings", "query=kubelet&sinceSeconds=1&sinceTime=2024-01-02T03:04:05Z", invalid, metav1.StatusReasonInvalid, "sinceSeconds"},
		{"an end before the beginning", "query=kubelet&sinceTime=2024-01-02T03:04:05Z&untilTime=2023-01-02T03:04:05Z", invalid, metav1.StatusReasonInvalid, "untilTime"},
		{"limitBytes of nothing", "query=kubelet&limitBytes=0", invalid, metav1.StatusReasonInvalid, "limitBytes"},
		{"boot of the future", "query=kubelet&boot=1", invalid, metav1.StatusReasonInvalid, "boot"},
		{"boot that nobody knows", "query=kubelet&boot=-7", http.StatusBadRequest, metav1.StatusReasonBadRequest, "boot"},
		{"output", "query=kubelet&output=xml", invalid, metav1.StatusReasonInvalid, "output"},
		{"follow of what is over", "query=kubelet&follow=true&previous=true", invalid, metav1.StatusReasonInvalid, "follow"},
		{"follow of the index", "follow=true", invalid, metav1.StatusReasonInvalid, "query"},
		{"cursor that is none", "query=kubelet&cursor=xyz", http.StatusBadRequest, metav1.StatusReasonBadRequest, "cursor"},
		{"cursor and another beginning", "query=kubelet&cursor=xyz&tailLines=1", invalid, metav1.StatusReasonInvalid, "cursor"},
		{"file as a unit", "unit=kubelet/kubelet.log", invalid, metav1.StatusReasonInvalid, "unit"},
		{"too many sources", strings.Repeat("query=kubelet&", 9) + "follow=true", invalid, metav1.StatusReasonInvalid, "query"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := ask(t, sys, http.MethodGet, subresource(ns, "w", "log", encodeQuery(tc.query)))
			status := a.refused(t, tc.code, tc.reason)
			mustSay(t, status.Message, tc.say)
			if strings.Contains(a.body, secret) || strings.Contains(a.body, "root:") {
				t.Errorf("the answer has what is outside: %s", a.body)
			}
		})
	}
	t.Run("unknown instance", func(t *testing.T) {
		ask(t, sys, http.MethodGet, subresource(ns, "nope", "log", "query=kubelet")).refused(t, http.StatusNotFound, metav1.StatusReasonNotFound)
	})
	t.Run("not to be written", func(t *testing.T) {
		ask(t, sys, http.MethodPost, subresource(ns, "w", "log", "query=kubelet")).refused(t, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed)
	})
}

// TestLogUnreachableHosts asks for logs of hosts that cannot be reached any more. The controller
// stays out of it: the instances are paused, once it has logged in.
func TestLogUnreachableHosts(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	wantSecretsRefused(sys, ns)
	const reimaged = "reimaged"
	for i, tc := range []struct {
		name  string
		fault winhost.Fault
		// spec is patched to that; empty: it stays.
		spec   string
		code   int
		reason metav1.StatusReason
		layer  string
		say    string
	}{
		{"closed port", winhost.Fault{RefuseTCP: true}, "", http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "Connect", "refused"},
		{"silent", winhost.Fault{HangAtAccept: true}, "", http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Handshake", "accepted the connection"},
		{"silent when logging in", winhost.Fault{HangAt: "auth"}, "", http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Auth", ""},
		{"silent when asked for the log", winhost.Fault{ExecHang: true, ExecMatch: " logs$"}, "", http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Agent", "did not answer"},
		{"no SSH server", winhost.Fault{GarbageBanner: true}, "", http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "Handshake", "SSH"},
		{"credentials refused", winhost.Fault{DenyAuth: true}, "", http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "Auth", ""},
		{"another host key", winhost.Fault{}, reimaged, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "HostKey", "host key"},
		{"no Secret", winhost.Fault{}, `{"spec":{"credentialsSecretRef":{"name":"nope"}}}`, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "Credentials", "nope"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			host := startHost(t, winhost.Options{})
			name := fmt.Sprintf("w%d", i)
			createInstance(t, ns, name, host, fmt.Sprintf(", hostKeys: [%q]", keyLine(host.HostKey())))
			waitFor(t, ns, name, preflightPassed)
			patchInstance(t, ns, name, `{"spec":{"paused":true}}`)
			waitFor(t, ns, name, verdict{v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonPaused})
			switch tc.spec {
			case "":
			case reimaged:
				reimage(t, host)
			default:
				patchInstance(t, ns, name, tc.spec)
			}
			setFault(t, host, tc.fault)
			before := len(host.Commands())
			a := ask(t, sys, http.MethodGet, subresource(ns, name, "log", "query=kubelet&follow=true"))
			status := a.refused(t, tc.code, tc.reason)
			mustSay(t, status.Message, tc.say)
			if status.Details == nil || len(status.Details.Causes) != 1 || status.Details.Causes[0].Type != "Layer" || status.Details.Causes[0].Message != tc.layer {
				t.Errorf("the cause is not the layer %s: %s", tc.layer, a.body)
			}
			if got := a.header.Get("Retry-After"); got == "" || got == "0" {
				t.Errorf("Retry-After is %q", got)
			}
			if commands := host.Commands(); len(commands) > before && tc.layer != "Agent" {
				t.Errorf("commands were run on the host: %q", commands[before:])
			}
		})
	}
}
