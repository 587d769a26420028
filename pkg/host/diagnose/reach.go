// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package diagnose

import (
	"context"
	"fmt"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
)

// reachAdvice says what to do about a layer on the way from a host to the API server.
var reachAdvice = map[api.ReachLayer]string{
	api.ReachDNS:     "correct the DNS servers of the host, or the record",
	api.ReachConnect: "open the way in the firewalls between, and see whether the load balancer has the API server",
	api.ReachProxy:   "have the proxy let it through, or add the address to what is reached without it",
	api.ReachTLS:     "find out who answers there, correct the clock of the host if that is it, or the CA that hosts are given",
	api.ReachHTTP:    "find out who answers there, and whether the API server is well",
}

// Unreached says that a host does not reach the API server: at which layer, where, why, and what to do. It begins in lower case
// and has no period at its end.
func Unreached(url string, a api.ReachAnswer) string {
	return fmt.Sprintf("%s of %s fails at %s (%s); %s", a.Failed, url, answer.Line(a.Address, answer.MaxName), answer.Line(a.Error, answer.MaxText), reachAdvice[a.Failed])
}

// ReasonAPIServerUnreachable is the reason of the layer [CheckAPIServer] when it fails; the message has the layer of the way.
const ReasonAPIServerUnreachable = "APIServerUnreachable"

// ReachAsker returns how a host reaches the API server. Nil: nobody knows, as hosts are only watched.
type ReachAsker func(ctx context.Context, instance *v1alpha1.WindowsInstance) (*api.ReachRequest, error)

// checkReach has the host try whether it reaches the API server.
func (h *Checker) checkReach(ctx context.Context, c *check) {
	request, err := h.reach(ctx, c.instance)
	switch {
	case err != nil:
		c.skipped(CheckAPIServer, fmt.Sprintf("It is not known how hosts reach the API server: %s.", cause(err)))
		return
	case request == nil:
		c.skipped(CheckAPIServer, "Hosts are only watched here, so they need not reach the API server.")
		return
	}
	began := time.Now()
	a, err := h.agents.Reach(ctx, c.instance, *request)
	switch took := time.Since(began); {
	case err != nil:
		c.diagnosed(CheckAPIServer, took, err, nil)
	case a.Failed != "":
		c.failed(CheckAPIServer, took, ReasonAPIServerUnreachable, "The host does not reach the API server: "+Unreached(request.URL, a)+".")
	default:
		c.passed(CheckAPIServer, took, request.URL)
	}
}
