// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"net/netip"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
)

// Hosts is what the reconciler needs of the way to hosts. The methods that take
// a context do I/O and end with it. All of them are called concurrently, with
// objects that nobody changes meanwhile.
type Hosts interface {
	// Resolve returns the addresses that the instance stands for, in the order in
	// which they are tried. It does not contact the host.
	Resolve(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]netip.Addr, error)
	// HostKey returns the key that the host presents; of several, one of a type that is trusted already, if there is one. It authenticates nothing and runs nothing.
	HostKey(ctx context.Context, instance *v1alpha1.WindowsInstance) (host.Key, error)
	// Login verifies the host key against spec.hostKeys, else status.hostKeys, then
	// authenticates and opens a session, and returns who that was. It fails when both are empty.
	Login(ctx context.Context, instance *v1alpha1.WindowsInstance) (host.Peer, error)
	// Rotation says which key the host is to accept, and which former ones it may accept. It does not contact the
	// host.
	Rotation(ctx context.Context, instance *v1alpha1.WindowsInstance, peer host.Peer) (host.Rotation, error)
	// RotateKey has the host accept the key in place of the former ones. accepted is the fingerprint of the key
	// that it was logged in to with, empty for a password. removed says that the files from which sshd takes keys by default
	// have none of the former ones any more. It may be repeated whenever it ended.
	RotateKey(ctx context.Context, instance *v1alpha1.WindowsInstance, r host.Rotation, accepted string) (removed bool, err error)
	// Facts has our agent collect what there is to know about the host, after putting
	// the agent there if need be. It verifies the host key like Login.
	Facts(ctx context.Context, instance *v1alpha1.WindowsInstance) (*api.Facts, error)
	// AgentDigest has our agent on the host compute its own SHA-256 digest now, which its facts do not have.
	AgentDigest(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error)
	// Agent names the agent that Facts puts on hosts: its version for people, and its
	// content, which is the beginning of its SHA-256 digest in hexadecimal.
	Agent() (version, digest string)
	// Forget closes the connections to the host of the instance.
	Forget(instance *v1alpha1.WindowsInstance)
}

// Rotations says when hosts get another key: a wrong one must not reach many of them. It is called concurrently.
type Rotations interface {
	// Begin says whether the host of an instance may get the key with a fingerprint now. If it may, wait is empty, and
	// end has to be called when that has ended; else wait says, for people, what it waits for.
	Begin(ctx context.Context, instance *v1alpha1.WindowsInstance, fingerprint string) (end func(), wait string, err error)
}
