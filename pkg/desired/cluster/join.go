// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// JoinMethod says by which credentials hosts join a cluster.
type JoinMethod string

const (
	// JoinUnsupported is that of OpenShift, where hosts do not join with bootstrap tokens.
	JoinUnsupported JoinMethod = "Unsupported"
	// JoinBootstrapToken gives each host a bootstrap token of its own, as kubeadm has them.
	JoinBootstrapToken JoinMethod = "BootstrapToken"
)

// Managed says whether hosts that join in this way are configured. Others are watched
// only: configuring a host that cannot join is useless.
func (m JoinMethod) Managed() bool { return m != JoinUnsupported }

// ReadJoinMethod decides how hosts join the cluster that r reads, and with that whether
// they are configured at all. R must be able to read Infrastructure cluster, or to say that
// there is no such kind.
func ReadJoinMethod(ctx context.Context, r client.Reader) (JoinMethod, error) {
	err := r.Get(ctx, client.ObjectKey{Name: clusterName}, &configv1.Infrastructure{})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return JoinBootstrapToken, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Infrastructure %s: %w", clusterName, err)
	}
	return JoinUnsupported, nil
}

// Tokens are the credentials of [JoinBootstrapToken].
type Tokens interface {
	// Issue returns a token for the host of an instance: the same one as long as it is good and
	// this process runs. The one before is revoked.
	Issue(ctx context.Context, instance *v1alpha1.WindowsInstance) (token string, err error)
	// Revoke ends the token. That there is none is no error.
	Revoke(ctx context.Context, instance *v1alpha1.WindowsInstance) error
}
