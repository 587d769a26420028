// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

// infrastructureName is the name of the one Infrastructure of a cluster of OpenShift.
const infrastructureName = "cluster"

// Releasable implements [windowsinstance.Releaser].
func (h *Hosts) Releasable(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	if h.desired == nil {
		return nil // nothing is known of the cluster here
	}
	err := h.desired.Cluster.Get(ctx, client.ObjectKey{Name: infrastructureName}, &configv1.Infrastructure{})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return apierrors.NewConflict(v1alpha1.Resource("windowsinstances"), instance.Name, errors.New(
			"this cluster is not OpenShift, so that there is no Windows Machine Config Operator to take the host on. To have the host cleaned and its Node deleted, delete the instance"))
	case err != nil:
		return apierrors.NewServiceUnavailable(fmt.Sprintf("whether the host %s can be released is not known, because the Infrastructure of the cluster cannot be read: %v", instance.Name, err))
	}
	return nil
}

// PlanRelease implements [windowsinstance.Releaser].
func (*Hosts) PlanRelease(_ context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	changes := []v1alpha1.PlannedChange{
		{
			Kind: string(api.KindService), Name: wmco.KubeProxyService, Action: string(api.ActionUpdate), Impact: v1alpha1.ImpactNone,
			Message: "Windows starts it with the host from then on, if the agent has done that so far. It runs on.",
		},
		{
			Kind: string(api.KindService), Name: api.ServiceName, Action: string(api.ActionDelete), Impact: v1alpha1.ImpactNone,
			Message: "Nobody repairs the host any more. With the service goes what the agent has recorded of the host; everything else stays as it is, and runs on.",
		},
	}
	if node := instance.Status.Node; node != nil {
		changes = append(changes, v1alpha1.PlannedChange{
			Kind: "Node", Name: node.Name, Action: string(api.ActionUpdate), Impact: v1alpha1.ImpactNone,
			Message: "Loses the label and the annotations by which it belongs to this operator, and a cordon of an operation that failed. It gets the annotations by which the Windows Machine Config Operator takes it on when all hosts are released. " + takeover.StartWMCO,
		})
	}
	return changes, nil
}
