// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
)

// Hosts is what operations need of the way to hosts. Its methods are called
// concurrently, with objects that nobody changes meanwhile, and end with their context.
// All of them verify the host key of the host.
type Hosts interface {
	// Login authenticates and opens a session, and returns who that was.
	Login(ctx context.Context, instance *v1alpha1.WindowsInstance) (host.Peer, error)
	// Facts has our agent inspect the host, after putting the agent there if need be.
	Facts(ctx context.Context, instance *v1alpha1.WindowsInstance) (*api.Facts, error)
	// AgentDigest has our agent on the host compute its own SHA-256 digest now, after putting the agent there if need be.
	AgentDigest(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error)
	// BootID says which boot the host is in. It is cheap.
	BootID(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error)
	// Restart restarts the host if it still is in the boot that the request names.
	// Otherwise it has been restarted, and the answer says so.
	Restart(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.RestartRequest) (api.RestartAnswer, error)
	// EnsureRoutes makes sure that routes exist, and returns those that were missing.
	EnsureRoutes(ctx context.Context, instance *v1alpha1.WindowsInstance, routes []api.Route) (changed []api.Route, err error)
	// Updates leaves a request about updates of Windows for the service of the host, and says how far that is: nil if it
	// has not been noticed yet. The same request may be made again. That the host cannot meet it is an
	// [agentclient.Error] of step [agentclient.StepRefused].
	Updates(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.UpdatesRequest) (*api.UpdateAttempt, error)
	// Reach has the host try whether it reaches the API server. That it does not is an answer.
	Reach(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.ReachRequest) (api.ReachAnswer, error)
	// PlanConfiguration has the host say what would have to be done for it to be as bundle
	// says. It changes nothing but that our agent is there.
	PlanConfiguration(ctx context.Context, instance *v1alpha1.WindowsInstance, bundle *config.Bundle) (*api.Plan, error)
	// Deliver puts files of the payload on the host. What is there already is not sent
	// again; what broke off goes on where it did.
	Deliver(ctx context.Context, instance *v1alpha1.WindowsInstance, files []api.PayloadFile, progress func(transfer.Progress)) error
	// Apply has the host apply the request. An error means that no result came; what
	// the host has done by then is not known, and the same can be applied again.
	Apply(ctx context.Context, instance *v1alpha1.WindowsInstance, request *api.ApplyRequest, report func(api.Event)) (*api.Result, error)
	// Adopt makes what another operator has configured on the host ours, as it is. Errors are as those of Apply.
	Adopt(ctx context.Context, instance *v1alpha1.WindowsInstance, request *api.AdoptRequest, report func(api.Event)) (*api.Result, error)
	// PlanAdoption has the host say what the first update after Adopt would do. It changes nothing but that our agent is there. That the
	// host cannot be adopted is an [agentclient.Error] of step [agentclient.StepRefused].
	PlanAdoption(ctx context.Context, instance *v1alpha1.WindowsInstance, request *api.AdoptRequest) (*api.Plan, error)
	// Release has the agent give the host up, which stays as it is. Errors are as those of Apply.
	Release(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.ReleaseRequest, report func(api.Event)) (*api.Result, error)
	// Resolve returns the addresses that the address of an instance stands for. It does not contact the host.
	Resolve(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]netip.Addr, error)
	// BareKey returns the public key of private-key.pem of a Secret with credentials, which must not be encrypted; the zero Key if
	// the Secret has a password only. It does not contact a host.
	BareKey(ctx context.Context, secret types.NamespacedName) (host.Key, error)
	// LoginBare is Login with nothing but that key. Nil: the host refuses it.
	LoginBare(ctx context.Context, instance *v1alpha1.WindowsInstance, secret types.NamespacedName) (*host.Peer, error)
	// EncryptUsername returns a user as WMCO reads it, encrypted with that key. It does not contact a host.
	EncryptUsername(ctx context.Context, secret types.NamespacedName, user string) (string, error)
	// RestartServices restarts the services of the configuration that the host has. Errors are as those of Apply.
	RestartServices(ctx context.Context, instance *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error)
	// Cleanup takes everything of ours off the host, our agent last. Errors are as those
	// of Apply. A host that has nothing of ours is Removed as well.
	Cleanup(ctx context.Context, instance *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error)
	// Agent names the agent that is put on hosts: its version for people, and the
	// beginning of its SHA-256 digest.
	Agent() (version, digest string)
	// Forget closes the connections to the host, and has the agent on it verified again.
	Forget(instance *v1alpha1.WindowsInstance)
}

// Configuration knows the desired configurations of hosts. Its methods are called concurrently.
type Configuration interface {
	// Build returns the desired configuration of the host. node is its Node, nil if it has none. A host
	// that joins as joinAs also gets credentials to become that node, the same ones again as long as
	// they are good and this process runs; empty: it does not join. Why it must not become that node is an
	// error; one that somebody has to resolve in the cluster is a [document.ErrInputs].
	Build(ctx context.Context, instance *v1alpha1.WindowsInstance, node *corev1.Node, joinAs string) (*document.Result, error)
}
