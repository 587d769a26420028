// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/instance"
	"github.com/openshift/windows-instance-api/pkg/controller/operation"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
)

// hosts is the way to hosts as controllers want it.
type hosts struct {
	*host.Connector
	*agentclient.Client
}

var (
	_ instance.Hosts  = hosts{}
	_ operation.Hosts = hosts{}
)

// Forget implements [instance.Hosts] and [operation.Hosts].
func (h hosts) Forget(instance *v1alpha1.WindowsInstance) { h.Client.Forget(instance) }
