// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// DefaultConcurrent is the usual value of [Options.Concurrent].
const DefaultConcurrent = 128

// Options configure the controller.
type Options struct {
	// Hosts is the way to hosts. Required.
	Hosts Hosts
	// Kube reads and writes Nodes and Pods, not from a cache. Required.
	Kube kubernetes.Interface
	// Ready waits until hosts can be connected to. No operation runs before, or goes on: it would fail
	// for what is no failure of its host. Nil: they can be at once.
	Ready func(ctx context.Context) error
	// Configuration says the desired configuration of hosts. Nil: a Reconfigure brings the agent to
	// the host and nothing else.
	Configuration Configuration
	// Version is that of this release, as Nodes have it in the annotation of the version that has configured their hosts.
	// Required to release hosts.
	Version string
	// Policy admits what disturbs the pods of Nodes. Required.
	Policy Policy
	// Superseded says why the host of an instance that was deleted is not to be removed any more,
	// empty if it is. It is asked when the host has answered, before anything is done. Required.
	Superseded func(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error)
	// Represented says why a host must not be changed for an instance, empty if it may be: another one has
	// it. It is asked right before a host is changed for the first time, after that was recorded.
	// Required.
	Represented func(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error)
	// Adoptable returns why no host of WMCO is to be taken over now, although that does not run: it would be started again. It is asked
	// before the host is changed. Required.
	Adoptable func(ctx context.Context) error
	// Labels says which labels the Node of an instance is to have, which are written beside operations. It is asked before the kubelet of a
	// host is restarted, with the Node as it is now and its managed fields. Required.
	Labels func(ctx context.Context, instance *v1alpha1.WindowsInstance, node *corev1.Node) (map[string]string, error)
	// MachineAddress returns the address at which WMCO reaches the host of a Machine, empty if there is none. It contacts nothing. Required.
	MachineAddress func(ctx context.Context, machine types.NamespacedName) (string, error)
	// Leads says whether this process still is the one that works, by what is in the cluster
	// now. One that was stopped for a while goes on without knowing that another one has
	// taken over. Nil: it always is.
	Leads func(ctx context.Context) (bool, error)
	// Recorder takes the events. It is that of core/v1: in events.k8s.io/v1 a second reboot
	// would be the first one once more, with what was said of that. Required.
	Recorder record.EventRecorder
	// Concurrent is how many operations run at the same time; those beyond
	// wait as Pending. Drains, reboots and restarts of services that people request have as many of their own. Uncordons and cancellations, which take no time, do not count, and neither do those that
	// have waited for a slot, for updates of Windows, or long for their host: they go on without.
	// Usually [DefaultConcurrent].
	Concurrent int
	// Settle is for how long a Node must stay ready after a change or a restart that disturbs
	// its pods, before that counts as a success, unless its pool says it. 0: it need not. Usually [DefaultSettle].
	Settle time.Duration
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer
}
