// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// withoutAnnotations is what people read of an event.
func withoutAnnotations(event string) string {
	text, _, _ := strings.Cut(event, " map[windows.openshift.io/session-")
	return text
}

func TestSessionEvents(t *testing.T) {
	instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "win-1"}}
	exec := windowsinstance.SessionInfo{Kind: limits.Exec, Instance: instance, User: "jane", ExecOptions: stream.ExecOptions{Command: []string{"sc", "query", "a b", ""}}, AuditID: "id-1"}
	shell := windowsinstance.SessionInfo{Kind: limits.Exec, Instance: instance, User: "jane", ExecOptions: stream.ExecOptions{TTY: true}}
	ports := windowsinstance.SessionInfo{Kind: limits.PortForward, Instance: instance, User: "jane", Ports: []int32{3389, 9182}}
	long := windowsinstance.SessionInfo{Kind: limits.Exec, Instance: instance, User: "jane", ExecOptions: stream.ExecOptions{Command: []string{strings.Repeat("é", 2000)}}, AuditID: "id-1"}
	end := func(result stream.Result) windowsinstance.SessionEnd {
		return windowsinstance.SessionEnd{Result: result, Duration: 1500 * time.Millisecond}
	}
	recorder := record.NewFakeRecorder(20)
	e := SessionEvents{recorder}
	e.Started(exec)
	e.Started(shell)
	e.Started(ports)
	e.NotRecorded(shell, errors.New("disk full"))
	e.Ended(exec, end(stream.Result{End: stream.EndExited, ExitCode: 3}))
	e.Ended(shell, end(stream.Result{End: stream.EndClientGone}))
	e.Ended(ports, end(stream.Result{End: stream.EndDrained}))
	e.Ended(shell, end(stream.Result{End: stream.EndFailed, Err: errors.New("connection lost")}))
	e.Started(long)
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, withoutAnnotations(event))
	}
	last := got[len(got)-1]
	if note := strings.TrimPrefix(last, "Normal SessionStarted "); len(note) > maxEventMessage || !strings.HasSuffix(note, "… Audit ID id-1.") {
		t.Errorf("a long command becomes an event of %d bytes: %s", len(note), note)
	}
	want := []string{
		`Normal SessionStarted jane runs sc. Audit ID id-1.`,
		`Normal SessionStarted jane opens a shell.`,
		`Normal SessionStarted jane forwards ports 3389 9182.`,
		`Warning SessionNotRecorded jane opens a shell, and it is not recorded, or not completely: disk full.`,
		`Normal SessionEnded jane ran sc for 1.5s: it ended with exit code 3. Audit ID id-1.`,
		`Normal SessionEnded jane had a shell for 1.5s: the client closed the connection.`,
		`Normal SessionEnded jane forwarded ports 3389 9182 for 1.5s: the server stopped.`,
		`Normal SessionEnded jane had a shell for 1.5s: it failed: connection lost.`,
	}
	if diff := cmp.Diff(want, got[:len(got)-1]); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}

// Those who forward ports, of which each connection is a session, do not push out the events of
// others, nor of what else they do.
func TestSessionEventsOfOthers(t *testing.T) {
	kube := fake.NewClientset()
	created := make(chan string, 1000)
	kube.PrependReactor("create", "events", func(action kubetesting.Action) (bool, runtime.Object, error) {
		created <- action.(kubetesting.CreateAction).GetObject().(*corev1.Event).Message
		return false, nil, nil
	})
	e, shutdown := NewSessionEvents(t.Context(), kube)
	defer shutdown()
	instance := &v1alpha1.WindowsInstance{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "win-1"},
	}
	forward := windowsinstance.SessionInfo{Kind: limits.PortForward, Instance: instance, User: "jane"}
	for port := range eventLimits.BurstSize + 10 {
		forward.Ports = []int32{int32(1000 + port)}
		e.Started(forward)
	}
	forward.User, forward.Ports = "joe", []int32{5985}
	e.Started(forward)
	e.Started(windowsinstance.SessionInfo{Kind: limits.Exec, Instance: instance, User: "jane", ExecOptions: stream.ExecOptions{Command: []string{"sc"}}})
	missing := map[string]bool{"joe forwards ports 5985.": true, "jane runs sc.": true}
	for timeout := time.After(20 * time.Second); len(missing) > 0; {
		select {
		case message := <-created:
			delete(missing, message)
		case <-timeout:
			t.Fatalf("there is no event of %v", missing)
		}
	}
}

// Everybody who may view a namespace reads its events.
func TestEventsNameTheProgramOnly(t *testing.T) {
	for command, want := range map[string]string{
		"net":                                "net",
		`C:\Windows\System32\net.exe`:        "net.exe",
		`C:\Program Files\Tools\run it.cmd`:  "a program",
		`C:\Program Files\Tools\tool.EXE`:    "tool.EXE",
		"c:/tools/psql":                      "psql",
		"net user svc S3cret-Pass /add":      "net",
		"net user svc S3cret/Pass":           "net",
		`C:\Program Files\Tools\x /p S3cret`: "Program",
		"":                                   "a program",
		" ":                                  "a program",
		"a\x1b[2Jb":                          "a program",
		`C:\tools\`:                          "a program",
	} {
		info := windowsinstance.SessionInfo{Kind: limits.Exec, Instance: &v1alpha1.WindowsInstance{}, User: "jane", ExecOptions: stream.ExecOptions{Command: []string{command, "S3cret-Pass"}}}
		recorder := record.NewFakeRecorder(3)
		e := SessionEvents{recorder}
		e.Started(info)
		e.NotRecorded(info, errors.New("disk full"))
		e.Ended(info, windowsinstance.SessionEnd{Result: stream.Result{End: stream.EndExited}, Duration: time.Second})
		close(recorder.Events)
		got := make([]string, 0, 3)
		for event := range recorder.Events {
			got = append(got, withoutAnnotations(event))
		}
		if diff := cmp.Diff([]string{
			"Normal SessionStarted jane runs " + want + ".",
			"Warning SessionNotRecorded jane runs " + want + ", and it is not recorded, or not completely: disk full.",
			"Normal SessionEnded jane ran " + want + " for 1s: it ended with exit code 0.",
		}, got); diff != "" {
			t.Errorf("%q: events differ (-want +got):\n%s", command, diff)
		}
	}
}
