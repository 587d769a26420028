// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// claim finds out, before anything is done to a host that is to be removed, whether an operation
// of ours ever changed it. The status says so, or the host itself, where an object was
// recreated without its status, or nobody knows whether the host was released. It is asked, too, where its Node is that of the Windows Machine Config Operator, also
// while that takes the host on: a status that was restored from before a release does not know of it. Otherwise only our agent is on it, and its Node, if it has one, is
// that of others: their pods stay, and so does their Node.
func (e *execution) claim(ctx context.Context) (map[string]string, error) {
	release := e.instance.Status.ReleaseBegunBy()
	if release == nil && e.instance.Status.MayHaveChangedHost() {
		if taken, err := e.takenByWMCO(ctx); err != nil || !taken {
			return nil, err // nothing is skipped
		}
	}
	facts, err := e.gatherFacts(ctx, "it cannot be found out what is on the host")
	if err != nil {
		return nil, err
	}
	c := facts.Configuration
	switch {
	case c.AppliedRevision != "" || c.ApplyingRevision != "":
		// The host forgets it with the cleanup, and the Node may have to be deleted by a later attempt.
		return nil, e.update(ctx, func(op *v1alpha1.Operation) { op.HostChanged = true })
	case facts.Unread(api.AreaConfiguration):
		return nil, errors.New("it cannot be found out whether the host was configured: its inventory in " + api.Root + " cannot be read")
	}
	why := "The host was never configured by this controller, so that only its agent is on it, and its Node is not touched."
	if release != nil {
		why = fmt.Sprintf("Operation %s has released the host, so that only our agent is on it, and its Node is not touched.", release.ID)
	}
	return map[string]string{v1alpha1.StepWaitForSlot: why, v1alpha1.StepCordon: why, v1alpha1.StepDrain: why, v1alpha1.StepDeleteNode: why}, nil
}

// takenByWMCO says whether the Node of the instance is that of the Windows Machine Config Operator.
func (e *execution) takenByWMCO(ctx context.Context) (bool, error) {
	node, err := e.statusNode(ctx)
	return object.MarkedByWMCO(node), err
}

// superseded says why the host is not to be removed any more, empty if it is. A host that does not
// answer is not asked about: whoever follows could not take it over.
func (e *execution) superseded(ctx context.Context) (why string, err error) {
	err = retryAPI(ctx, e.clock, "Asking whether the host is still to be removed", isFinal, func() (err error) {
		why, err = e.Superseded(ctx, e.instance)
		return err
	})
	return why, err
}

// keepsFromCleanup says why a host that can be reached is not cleaned now, empty if it is: it has to
// be restarted after that, and Windows will refuse it, or nobody could log in then. Its pods stay. A host that does not say
// what a cleanup needs is cleaned all the same: if it cannot be, that says why.
func (e *execution) keepsFromCleanup(ctx context.Context) (why string, err error) {
	nothing := config.Bundle{Document: config.Document{Version: config.SchemaVersion}}
	plan, err := ask(ctx, e.clock, time.Time{}, planTimeout, func(ctx context.Context) (*api.Plan, error) {
		return e.Hosts.PlanConfiguration(ctx, e.instance, &nothing)
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil || plan.Impact != config.ImpactReboot:
		return "", nil //nolint:nilerr // see above
	}
	facts := e.said(ctx)
	if facts == nil {
		return "", nil
	}
	if why := preflight.SSHDoesNotStart(facts); why != "" {
		return fmt.Sprintf("The host has to be restarted when it has been cleaned, and %s. Nothing was changed. The removal is tried again by itself.", why), nil
	}
	names := namesAtWork(facts)
	if names == "" {
		return "", nil
	}
	return fmt.Sprintf("The host has to be restarted when it has been cleaned, and these people are logged on: %s. Nothing was changed. Have them log off; the removal is tried again by itself.", names), nil
}

// cleanup takes everything of ours off the host and puts back what was there before.
func (e *execution) cleanup(ctx context.Context) (result, error) {
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, err
	}
	done, err := e.clean(ctx)
	if err != nil {
		return result{}, err
	}
	r := result{message: describeLeft(done.AtBoot) + " " + describeChanges(done.Changed) + describeNetworks(done.Networks)}
	if len(done.Reboot) == 0 {
		const needless = "Nothing needs a restart of Windows."
		r.skips = map[string]string{v1alpha1.StepRestart: needless, v1alpha1.StepBoot: needless}
		return r, nil
	}
	r.message += " Windows has to be restarted: " + strings.Join(done.Reboot, "; ") + "."
	return r, nil
}

// describeLeft says what of ours is on the host after it was cleaned.
func describeLeft(atBoot []string) string {
	if len(atBoot) == 0 {
		return "Nothing of ours is on the host any more."
	}
	return fmt.Sprintf("Nothing of ours runs on the host any more. Still in use, and removed when Windows restarts the next time: %s.", words.Enumerate(atBoot, maxNamed))
}

// describeNetworks says which networks of others are on the host after it was cleaned, as the end of
// a message. Empty: there are none. A host chooses their names, so they are in no command.
func describeNetworks(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" These networks of the Host Networking Service stay, because others have made them: %s. They hold the address of an adapter; "+
		"remove them before the host joins another cluster, in PowerShell on it: Get-HnsNetwork | Where-Object Name -eq 'NAME' | Remove-HnsNetwork", words.Enumerate(names, maxNamed))
}

func (e *execution) clean(ctx context.Context) (*api.Result, error) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	done, err := e.change(ctx, "Cleaning the host.", func(ctx context.Context, instance *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error) {
		return e.Hosts.Cleanup(ctx, instance, report)
	})
	if err != nil {
		return nil, err
	}
	if done.Outcome == api.OutcomeFailed {
		return nil, failed(done)
	}
	return done, nil
}

// registrationPatience is for how long the Node that a kubelet has registered again may be unknown: the instance controller
// finds it by a watch, which takes longer when the API server or this process is busy.
const registrationPatience = time.Minute

// deleteNode deletes the Node of the host, and no other one that has its name by now. A
// host that was about to join may have become one after the removal began, and a kubelet that started
// again before it was removed may have registered its Node again. A Node that finalizers keep does not keep the removal from its end.
func (e *execution) deleteNode(ctx context.Context) (result, error) {
	done, _, err := e.deleteOwnNode(ctx)
	return done, err
}

// deleteOwnNode is deleteNode, which also says whether the Node is still there as its finalizers keep it.
func (e *execution) deleteOwnNode(ctx context.Context) (done result, kept bool, err error) {
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, false, err
	}
	node := e.nodeToDelete()
	if node == nil {
		return noNode, false, nil
	}
	another := false // Node has the name now
	until := e.clock.Now().Add(registrationPatience)
	err = e.waitUntil(ctx, until, fmt.Sprintf("Waiting until it is known whose Node %s is now.", node.Name), func(ctx context.Context) (lacks string, err error) {
		if known := e.nodeToDelete(); known != nil {
			node = known
		}
		err = retryAPI(ctx, e.clock, "Deleting the Node", isFinal, func() error {
			err := e.Kube.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}})
			if apierrors.IsConflict(err) {
				return finalError{err}
			}
			return err
		})
		if another = apierrors.IsConflict(err); another && e.operation().Type == v1alpha1.OperationRemove {
			return "It was deleted meanwhile, and another one has its name", e.load(ctx)
		}
		return "", err
	})
	switch {
	case apierrors.IsNotFound(err):
		return result{skipped: true, message: fmt.Sprintf("Node %s was already deleted.", node.Name)}, false, nil
	case another && ctx.Err() == nil && !errors.Is(err, errOver):
		return result{skipped: true, message: fmt.Sprintf("Node %s was already deleted. Another Node now has this name; it is kept.", node.Name)}, false, nil
	case err != nil:
		return result{}, false, fmt.Errorf("deleting Node %s: %w", node.Name, err)
	}
	keptBy, err := e.awaitDeletion(ctx, node)
	switch {
	case err != nil:
		return result{}, false, fmt.Errorf("finding out whether Node %s is deleted: %w", node.Name, err)
	case keptBy != "":
		return result{message: fmt.Sprintf("Node %s is being deleted. %s.", node.Name, keptBy)}, true, nil
	}
	return result{message: fmt.Sprintf("Node %s is deleted.", node.Name)}, false, nil
}

// awaitDeletion waits for registrationPatience for a Node that was deleted to be gone, and says what keeps it after that. Empty: it is gone.
func (e *execution) awaitDeletion(ctx context.Context, node *v1alpha1.NodeReference) (keptBy string, err error) {
	err = e.waitUntil(ctx, e.clock.Now().Add(registrationPatience), fmt.Sprintf("Waiting for Node %s to be gone.", node.Name), func(ctx context.Context) (lacks string, err error) {
		keptBy = ""
		is, err := e.readNode(ctx, node.Name)
		if err != nil || is == nil || is.UID != node.UID {
			return "", err
		}
		if keptBy = "It is still there"; len(is.Finalizers) > 0 {
			keptBy = "Its finalizers keep it: " + words.Enumerate(is.Finalizers, maxNamed)
		}
		return keptBy, nil
	})
	if keptBy != "" && ctx.Err() == nil {
		return keptBy, nil
	}
	return "", err
}

// nodeToDelete names the Node that is deleted. With a host that is removed that is the one which it has by now, if that is recorded, under the name
// that the operation began with. A configuration deletes only the one that it has found out that nobody reports for. Nil: there is none.
func (e *execution) nodeToDelete() *v1alpha1.NodeReference {
	node, removes := e.nodeReference(), e.operation().Type == v1alpha1.OperationRemove
	if known := e.instance.Status.Node; removes && node != nil && known != nil && known.Name == node.Name {
		return known
	}
	return node
}

// forget closes the connections to the host. Of one that was ours WMCO is to have no host key either.
func (e *execution) forget(ctx context.Context) (result, error) {
	e.Hosts.Forget(e.instance)
	const message = "All connections to the host are closed."
	status := &e.instance.Status
	if status.ReleaseBegunBy() != nil || !status.MayHaveChangedHost() {
		return result{message: message}, nil
	}
	note, err := e.correctHostKeys(ctx, recordedAddresses{found: metByWMCO(e.instance)}, func() (host.Key, error) { return host.Key{}, nil })
	return result{message: message + note}, err
}
