// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
)

// observation is what one probe saw of a host. It is not changed once the probe has ended.
type observation struct {
	// uid is that of the instance.
	uid types.UID
	// contact is the digest of how the host was to be reached, see [contactDigest].
	// The observation says nothing about an instance that is reached in another way.
	contact string
	// pins names the host keys that were trusted when the probe began, see [pinsOf].
	pins string
	// started and finished are when the probe ran.
	started, finished time.Time
	// addresses are those that the instance stands for.
	addresses []string
	// presented is the key that the host presented. None when it was not asked for by
	// itself: a login that succeeded has verified it.
	presented host.Key
	// contacted: an SSH server answered. verified: it has proven to have a trusted
	// key. loggedIn: it accepted the credentials and opened a session.
	contacted, verified, loggedIn bool
	// peer is who was logged in to.
	peer host.Peer
	// rotation is whether the host has the key that it is to have. Nil: that was not found out.
	rotation *rotation
	// report is what the host said of itself. Nil when the probe did not come that far.
	report *report
	// unheld: the probe ended before the host was inspected, as the object does not have our finalizer.
	unheld bool
	// unconfirmed: the probe ended with the host key, as which one is trusted was lost.
	unconfirmed bool
	// duplicate: the probe ended before it contacted the host, as another instance stands for it.
	duplicate bool
	// failed and err are the step that failed and why. A probe that ended early on
	// purpose has neither.
	failed diagnose.Stage
	err    error
	// hung: it failed because the host did not answer in time.
	hung bool
	// result names the end of the probe in metrics and logs.
	result string
}

// report is what is kept of the facts of a host.
type report struct {
	system        v1alpha1.SystemStatus
	findings      []preflight.Finding
	rebootPending bool
	rebootReasons []string
	// machineID tells the machine from others.
	machineID string
	// kubelet: there is a service kubelet on the host, or it cannot be known that there is none.
	kubelet bool
	// wicd: the daemon of WMCO is on the host.
	wicd bool
	// exporter: windows_exporter is on the host, and it serves metrics.
	exporter bool
	// agentVersion and agentDigest are those of the agent that answered. The digest is empty for hosts that are configured.
	agentVersion string
	agentDigest  string
	// configuration is what the host was configured with. blank: that was nothing, and nothing is half done.
	configuration api.ConfigurationFacts
	blank         bool
	// unattended: it was configured, and the service of our agent does not run.
	unattended bool
	// updates of Windows that wait. Nil: the host does not say.
	updates *v1alpha1.WindowsUpdatesStatus
}

// outcome sums an observation up for the schedule.
func (o *observation) outcome() outcome {
	switch {
	case o.duplicate, o.unheld, o.unconfirmed:
		return outcomeAttention
	case o.err != nil:
		return outcomeFailed
	case o.report == nil:
		return outcomeRecorded
	case preflight.Blocking(o.report.findings), o.rotation != nil && !o.rotation.done:
		return outcomeAttention
	}
	return outcomeHealthy
}

// foundThrough is the bastion through which the host was logged in to, else the one that it is contacted through.
func (o *observation) foundThrough(contact string) string {
	if o == nil || !o.loggedIn {
		return contact
	}
	return o.peer.Bastion
}

// foundAt is the address at which the host was logged in to. Empty: it was not.
func (o *observation) foundAt() string {
	if !o.peer.Address.IsValid() {
		return ""
	}
	return o.peer.Address.String()
}

// held says whether the object stays until its host is clean.
func held(instance *v1alpha1.WindowsInstance) bool {
	return slices.Contains(instance.Finalizers, v1alpha1.HostFinalizer)
}

// contactDigest names everything in the spec of an instance and its pool that
// decides how the host is reached and logged in to. While it stays the same, what
// was seen of the host stays valid, also when the spec changes elsewhere.
func contactDigest(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) string {
	contact := struct {
		Address, Username                 string
		Port                              int32
		HostKeys                          []string
		Machine                           string
		Pool, Credentials, PoolCredential string
		Bastion                           *v1alpha1.Bastion
	}{
		Address: instance.Spec.Address, Username: instance.Spec.Username, Port: instance.Spec.Port,
		HostKeys: instance.Spec.HostKeys, Machine: instance.Annotations[v1alpha1.MachineAnnotation],
		Bastion: instance.BastionWith(pool),
	}
	if ref := instance.Spec.PoolRef; ref != nil {
		contact.Pool = ref.Name
	}
	if ref := instance.Spec.CredentialsSecretRef; ref != nil {
		contact.Credentials = ref.Name
	}
	if pool != nil && pool.Spec.Template.CredentialsSecretRef != nil {
		contact.PoolCredential = pool.Spec.Template.CredentialsSecretRef.Name
	}
	doc, err := json.Marshal(contact)
	if err != nil { // strings and numbers always marshal
		panic(err)
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}

// pinsOf names the host keys that an instance trusts.
func pinsOf(instance *v1alpha1.WindowsInstance) string {
	return strings.Join(trustedKeys(instance.Spec.HostKeys, instance.Status.HostKeys), "\n")
}
