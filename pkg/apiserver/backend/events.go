// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apiserver"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// Reasons of the events about sessions, which are about the instance.
const (
	reasonSessionStarted     = "SessionStarted"
	reasonSessionEnded       = "SessionEnded"
	reasonSessionNotRecorded = "SessionNotRecorded"
)

// maxEventMessage is the limit of an event.
const maxEventMessage = 1024

// Annotations of events about sessions.
const (
	annotationSessionKind = "windows.openshift.io/session-kind"
	annotationSessionUser = "windows.openshift.io/session-user"
)

// eventLimits let every session of people have its events. Scripts that run a command
// every second, and programs that open many connections to forwarded ports, get one event for
// several: the log of the server and the audit log have each. They do not limit the events of
// other users, nor those of sessions of another kind.
var eventLimits = record.CorrelatorOptions{
	MaxEvents: 60, MaxIntervalInSeconds: 60, BurstSize: 120, QPS: 0.2,
	KeyFunc: func(event *corev1.Event) (aggregateKey, localKey string) {
		aggregateKey, localKey = record.EventAggregatorByReasonFunc(event)
		return aggregateKey + sessionKey(event), localKey
	},
	SpamKeyFunc: func(event *corev1.Event) string {
		about := event.InvolvedObject
		return strings.Join([]string{about.Namespace, about.Name, string(about.UID), event.Type, sessionKey(event)}, "\x00")
	},
}

// sessionKey is the same for the sessions of one kind of one user.
func sessionKey(event *corev1.Event) string {
	return event.Annotations[annotationSessionKind] + "\x00" + event.Annotations[annotationSessionUser]
}

// SessionEvents reports sessions in events of the cluster, where those who look
// after a host see them, and in the log of the server. The events are those of core/v1:
// in events.k8s.io two that differ in their note only are one that happened twice.
type SessionEvents struct {
	recorder record.EventRecorder
}

var _ windowsinstance.SessionEvents = (*SessionEvents)(nil)

// NewSessionEvents sends events to the cluster of kube until the returned function is called. It sends
// after the end of ctx, too: the server then stops, and with it the sessions.
func NewSessionEvents(ctx context.Context, kube kubernetes.Interface) (e *SessionEvents, shutdown func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)), record.WithCorrelatorOptions(eventLimits))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return &SessionEvents{broadcaster.NewRecorder(apiserver.Scheme, corev1.EventSource{Component: "windows-apiserver"})}, broadcaster.Shutdown
}

// Started implements [windowsinstance.SessionEvents].
func (e *SessionEvents) Started(info windowsinstance.SessionInfo) {
	klog.InfoS("Session started", "kind", info.Kind, "instance", klog.KObj(info.Instance), "user", info.User, "audit", info.AuditID)
	e.send(info, corev1.EventTypeNormal, reasonSessionStarted, fmt.Sprintf("%s %s.", info.User, describe(info, present)))
}

// NotRecorded implements [windowsinstance.SessionEvents].
func (e *SessionEvents) NotRecorded(info windowsinstance.SessionInfo, err error) {
	e.send(info, corev1.EventTypeWarning, reasonSessionNotRecorded, fmt.Sprintf("%s %s, and it is not recorded, or not completely: %v.", info.User, describe(info, present), err))
}

// Ended implements [windowsinstance.SessionEvents].
func (e *SessionEvents) Ended(info windowsinstance.SessionInfo, end windowsinstance.SessionEnd) {
	klog.InfoS("Session ended", "kind", info.Kind, "instance", klog.KObj(info.Instance), "user", info.User, "audit", info.AuditID, "end", end.String())
	e.send(info, corev1.EventTypeNormal, reasonSessionEnded, fmt.Sprintf("%s %s for %s: %s.", info.User, describe(info, past), end.Duration.Round(time.Millisecond), describeEnd(end)))
}

// send adds what the audit logs of both servers call the request.
func (e *SessionEvents) send(info windowsinstance.SessionInfo, kind, reason, message string) {
	suffix := ""
	if info.AuditID != "" {
		suffix = fmt.Sprintf(" Audit ID %s.", info.AuditID)
	}
	if limit := maxEventMessage - len(suffix) - len("…"); len(message) > limit {
		message = strings.ToValidUTF8(message[:limit], "") + "…"
	}
	of := map[string]string{annotationSessionKind: string(info.Kind), annotationSessionUser: info.User}
	e.recorder.AnnotatedEventf(info.Instance, of, kind, reason, "%s", message+suffix)
}

// tense has the verbs for the kinds of sessions.
type tense struct{ forward, shell, run string }

var (
	present = tense{"forwards ports", "opens a shell", "runs"}
	past    = tense{"forwarded ports", "had a shell", "ran"}
)

// describe says what the user of a session does, or did.
func describe(info windowsinstance.SessionInfo, t tense) string {
	switch {
	case info.Kind == limits.PortForward:
		return t.forward + list(info.Ports)
	case len(info.Command) == 0:
		return t.shell
	}
	return t.run + " " + program(info.Command[0])
}

func list(ports []int32) string {
	return " " + strings.Trim(fmt.Sprint(ports), "[]")
}

// program is the name of the program that a command starts. Its arguments are no part of events:
// they have passwords at times, and everybody who may read the namespace reads its events. The audit log
// and the recording of the session have the whole command.
func program(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".exe", ".com", ".bat", ".cmd", ".ps1":
	default:
		// Somebody may have written a whole command line as one word.
		if words := strings.Fields(name); len(words) > 0 {
			name = words[0]
		}
	}
	name = name[strings.LastIndexAny(name, `\/`)+1:]
	if words := strings.Fields(name); len(words) == 1 && strings.IndexFunc(name, unicode.IsControl) < 0 {
		return words[0]
	}
	return "a program"
}

// describeEnd says how a session ended.
func describeEnd(end windowsinstance.SessionEnd) string {
	switch end.End {
	case stream.EndExited:
		return fmt.Sprintf("it ended with exit code %d", end.ExitCode)
	case stream.EndClosed:
		return "the connection was closed"
	case stream.EndClientGone:
		return "the client closed the connection"
	case stream.EndDrained:
		return "the server stopped"
	case stream.EndIdle:
		return "nothing was sent for too long"
	case stream.EndCanceled:
		return "the request ended"
	case stream.EndRecordingFailed:
		return "it could not be recorded any more"
	case stream.EndNotUpgraded:
		return "the connection could not be upgraded"
	case stream.EndFailed:
	}
	if end.Err != nil {
		return "it failed: " + end.Err.Error()
	}
	return "it failed"
}
