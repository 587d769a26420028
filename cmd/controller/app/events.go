// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// eventSource is who tells of what the controllers do.
const eventSource = "windows-controller"

// eventLimits are for mistakes of ours only: the controllers tell of what has changed and
// never of what is as it was, also when a ConfigMap with hundreds of hosts is all wrong.
var eventLimits = record.CorrelatorOptions{MaxEvents: 512, MaxIntervalInSeconds: 600, BurstSize: 512, QPS: 1}

// newRecorder makes events of core/v1 until the returned function is called. In
// events.k8s.io/v1, which the recorder of the manager uses, events of one reason about one
// object are one that happened again, for as long as six minutes and with the note of the
// first: a host that fails once more, for another cause, or is rebooted twice, would look
// as if nothing had happened. The end of ctx does not keep the last events from being sent.
func newRecorder(ctx context.Context, kube kubernetes.Interface, scheme *runtime.Scheme) (recorder record.EventRecorder, shutdown func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)), record.WithCorrelatorOptions(eventLimits))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: eventSource}), broadcaster.Shutdown
}
