// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Inspect has the agent look at the host more closely than Facts does. Errors are
// [CredentialsError]s, [ssh.Error]s and [AgentError]s.
//
// [ssh.Error]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/host/ssh#Error
func (a *Access) Inspect(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error) {
	var facts api.Facts
	times, err := a.ask(ctx, instance, question{command: api.CommandInspect}, &facts)
	if err != nil {
		return nil, err
	}
	inspection := answer.Inspection(&facts, times)
	inspection.Name, inspection.Namespace, inspection.UID = instance.Name, instance.Namespace, instance.UID
	return inspection, nil
}
