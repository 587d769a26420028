// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Credentials are what a host joins the cluster with: a client certificate of its node.
type Credentials struct {
	// Certificate and Key are in PEM.
	Certificate []byte
	Key         config.SecretValue
}

// Issuer issues credentials to join with.
type Issuer interface {
	// Issue returns credentials for the host of an instance, whose node is to have that name: the same
	// ones as long as they are good and this process runs. Why a host must not have that name is an
	// error.
	Issue(ctx context.Context, instance *v1alpha1.WindowsInstance, nodeName string) (*Credentials, error)
}
