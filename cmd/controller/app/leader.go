// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/apiservice"
	"github.com/openshift/windows-instance-api/pkg/coalesce"
)

const (
	// leaseName names the Lease that decides which process works.
	leaseName = "windows-controller"
	// leaseTimeout bounds each question about who leads: a leader that cannot renew the Lease has to try more than once before it ends.
	leaseTimeout = 5 * time.Second

	// With these a leader outlives 78 seconds without an API server, and clocks may differ by 30 seconds. So OpenShift wants it of its
	// components: clusters of a single node have none for a minute whenever it is updated, and a leader that ends because of that has to
	// learn about all hosts once more. (CONVENTIONS.md of openshift/enhancements, "Handling kube-apiserver disruption")
	defaultLeaseDuration = 137 * time.Second
	defaultRenewDeadline = 107 * time.Second
	defaultRetryPeriod   = 26 * time.Second
)

// newLease returns what this process takes part in the election with; nil without one.
func newLease(config *rest.Config, o *options) (*resourcelock.LeaseLock, error) {
	if !o.LeaderElect {
		return nil, nil //nolint:nilnil // no election is an ordinary answer
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding a name for the election: %w", err)
	}
	config = rest.CopyConfig(config)
	config.Timeout = leaseTimeout
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "leader-election"))
	if err != nil {
		return nil, fmt.Errorf("making a client for the election: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: o.LeaderElectionNamespace, Name: leaseName}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}, nil
}

// leadsInterval and leadsBurst limit how often the API server is asked which process leads, see [coalesce.Group]: each operation asks up to eight times.
const (
	leadsInterval = 200 * time.Millisecond
	leadsBurst    = 10
)

// leads returns what says whether this process still has the hosts of the cluster: its installation
// does, and of that it has the Lease, where there is an election. A process that was stopped, and goes
// on, learns only up to two minutes later that another one has it, and a watch may hang for longer. The lock itself is not asked: it
// remembers what it has read for the next renewal, which would then take the Lease from its new holder. Hosts that are worked on at the same
// time share questions.
func leads(lease *resourcelock.LeaseLock, registrations dynamic.Interface, namespace string) func(ctx context.Context) (bool, error) {
	ask := func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
		defer cancel()
		if err := apiservice.CheckOwn(ctx, registrations, namespace); err != nil {
			if _, elsewhere := errors.AsType[*apiservice.ElsewhereError](err); elsewhere {
				return false, nil
			}
			return false, err
		}
		if lease == nil {
			return true, nil
		}
		found, err := lease.Client.Leases(lease.LeaseMeta.Namespace).Get(ctx, lease.LeaseMeta.Name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("reading Lease %s/%s: %w", lease.LeaseMeta.Namespace, lease.LeaseMeta.Name, err)
		}
		return ptr.Deref(found.Spec.HolderIdentity, "") == lease.Identity(), nil
	}
	shared := coalesce.Group[struct{}, bool]{Interval: leadsInterval, Burst: leadsBurst}
	return func(ctx context.Context) (bool, error) { return shared.Do(ctx, struct{}{}, ask) }
}
