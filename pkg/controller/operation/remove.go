// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// claim finds out, before anything is done to a host that is to be removed, whether an operation
// of ours ever changed it. The status says so, or the host itself, where an object was
// recreated without its status. Otherwise only our agent is on it, and its Node, if it has one, is
// that of others: their pods stay, and so does their Node.
func (e *execution) claim(ctx context.Context) (map[string]string, error) {
	if e.instance.Status.MayHaveChangedHost() {
		return nil, nil //nolint:nilnil // nothing is skipped
	}
	facts, err := e.gatherFacts(ctx, "it cannot be found out what is on the host")
	if err != nil {
		return nil, err
	}
	c := facts.Configuration
	unread := slices.ContainsFunc(facts.Errors, func(e api.FactError) bool { return e.Area == "configuration" })
	switch {
	case c.AppliedRevision != "" || c.ApplyingRevision != "":
		// The host forgets it with the cleanup, and the Node may have to be deleted by a later attempt.
		return nil, e.update(ctx, func(op *v1alpha1.Operation) { op.HostChanged = true })
	case unread:
		return nil, errors.New("it cannot be found out whether the host was configured: its inventory in " + api.Root + " cannot be read")
	}
	const why = "The host was never configured by this controller, so that only its agent is on it, and its Node is not touched."
	return map[string]string{v1alpha1.StepCordon: why, v1alpha1.StepDrain: why, v1alpha1.StepDeleteNode: why}, nil
}

// superseded says why the host is not to be removed any more, empty if it is. A host that does not
// answer is not asked about: whoever follows could not take it over.
func (e *execution) superseded(ctx context.Context) (why string, err error) {
	if e.Superseded == nil {
		return "", nil
	}
	err = retryAPI(ctx, e.clock, "Asking whether the host is still to be removed", isFinal, func() (err error) {
		why, err = e.Superseded(ctx, e.instance)
		return err
	})
	return why, err
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
	r := result{message: describeLeft(done.AtBoot) + " " + describeChanges(done.Changed)}
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

func (e *execution) clean(ctx context.Context) (*api.Result, error) {
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

// deleteNode deletes the Node of the host, and no other one that has its name by now. A
// host that was about to join may have become one after the removal began.
func (e *execution) deleteNode(ctx context.Context) (result, error) {
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, err
	}
	node := e.nodeReference()
	if node == nil {
		return noNode, nil
	}
	err := retryAPI(ctx, e.clock, "Deleting the Node", isFinal, func() error {
		err := e.Kube.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}})
		if apierrors.IsConflict(err) {
			return finalError{err}
		}
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return result{skipped: true, message: fmt.Sprintf("Node %s was already deleted.", node.Name)}, nil
	case apierrors.IsConflict(err):
		return result{skipped: true, message: fmt.Sprintf("Node %s was already deleted. Another Node now has this name; it is kept.", node.Name)}, nil
	case err != nil:
		return result{}, fmt.Errorf("deleting Node %s: %w", node.Name, err)
	}
	return result{message: fmt.Sprintf("Node %s is deleted.", node.Name)}, nil
}

// forget closes the connections to the host.
func (e *execution) forget(context.Context) (result, error) {
	e.Hosts.Forget(e.instance)
	return result{message: "All connections to the host are closed."}, nil
}
