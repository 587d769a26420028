// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// InfrastructureName is the name of the one Infrastructure of a cluster of OpenShift.
const InfrastructureName = "cluster"

// ErrNoPlatform means that a cluster of OpenShift does not say its platform. To guess one would be worse: the user of hosts, what they are
// called, and what makes them open to SSH, depends on it.
var ErrNoPlatform = errors.New("it does not exist, or has no status.platformStatus.type, as when it was created again without its status")

// controllerConfigName is the name of the one ControllerConfig of a cluster of OpenShift.
const controllerConfigName = "machine-config-controller"

// Platform returns the platform of a cluster of OpenShift, and nothing for another cluster. The error is [ErrNoPlatform] if it is one of
// OpenShift, and its Infrastructure is gone or says none.
func Platform(ctx context.Context, reader client.Reader) (configv1.PlatformType, error) {
	var infrastructure configv1.Infrastructure
	err := reader.Get(ctx, client.ObjectKey{Name: InfrastructureName}, &infrastructure)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		// Other clusters may have the kind as well. What the Machine Config Operator has is that of OpenShift.
		of := &metav1.PartialObjectMetadata{}
		of.SetGroupVersionKind(mcfgv1.SchemeGroupVersion.WithKind("ControllerConfig"))
		err = reader.Get(ctx, client.ObjectKey{Name: controllerConfigName}, of)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("reading ControllerConfig %s, because there is no Infrastructure %s: %w", controllerConfigName, InfrastructureName, err)
		}
		err = ErrNoPlatform
	case err == nil:
		if platform := wmco.PlatformOf(&infrastructure); platform != "" {
			return platform, nil
		}
		err = ErrNoPlatform
	}
	return "", fmt.Errorf("reading Infrastructure %s: %w", InfrastructureName, err)
}
