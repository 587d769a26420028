// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// InfrastructureName is the name of the one Infrastructure of a cluster of OpenShift.
const InfrastructureName = "cluster"

// ErrNoPlatform means that the Infrastructure of a cluster says no platform. To guess one would be worse: the user of hosts, and what
// makes them open to SSH, depends on it.
var ErrNoPlatform = errors.New("it has no status.platformStatus.type, as when it was created again without its status")

// Platform returns the platform of a cluster of OpenShift, and nothing for a cluster without an Infrastructure. The error is
// [ErrNoPlatform] if that says none.
func Platform(ctx context.Context, reader client.Reader) (configv1.PlatformType, error) {
	var infrastructure configv1.Infrastructure
	err := reader.Get(ctx, client.ObjectKey{Name: InfrastructureName}, &infrastructure)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return "", nil
	}
	if err == nil {
		if platform := wmco.PlatformOf(&infrastructure); platform != "" {
			return platform, nil
		}
		err = ErrNoPlatform
	}
	return "", fmt.Errorf("reading Infrastructure %s: %w", InfrastructureName, err)
}
