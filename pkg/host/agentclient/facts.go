// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
)

// factsTimeout bounds collecting facts, which takes well under a second on a healthy host.
const factsTimeout = time.Minute

// Facts has the agent report on the host. Errors are those of [Hosts],
// [ssh.Error]s and [Error]s.
func (a *Client) Facts(ctx context.Context, instance *v1alpha1.WindowsInstance) (*api.Facts, error) {
	facts := &api.Facts{}
	if _, err := a.query(ctx, instance, factsQuery, facts); err != nil {
		return nil, err
	}
	return facts, nil
}

// factsQuery is the request for facts.
var factsQuery = query{command: api.CommandFacts, timeout: factsTimeout}

// Inspect has the agent report on the host in more detail than Facts does. Errors are
// those of [Hosts], [ssh.Error]s and [Error]s.
//
// [ssh.Error]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/host/ssh#Error
func (a *Client) Inspect(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error) {
	var facts api.Facts
	times, err := a.query(ctx, instance, query{command: api.CommandInspect}, &facts)
	if err != nil {
		return nil, err
	}
	inspection := answer.Inspection(&facts, times)
	inspection.Name, inspection.Namespace, inspection.UID = instance.Name, instance.Namespace, instance.UID
	return inspection, nil
}
