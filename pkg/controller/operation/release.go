// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// releaseToWMCO is what the agent is asked for when a host becomes one of WMCO.
var releaseToWMCO = api.ReleaseRequest{Imported: wmco.ImportedCertificatesPath, Manager: wmco.WICDService, ManagerCertificates: wmco.WICDCertsDir}

// release has the agent give the host up. What makes it a node stays as it is. It works while WMCO runs, too: then that is about to
// configure the host, or does already.
func (e *execution) release(ctx context.Context) (result, error) {
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, err
	}
	node, err := e.nodeToRelease(ctx)
	if err != nil {
		return result{}, err
	}
	if _, err := e.listedForWMCO(ctx, node); err != nil {
		return result{}, err
	}
	if err := e.ensureReachableForWMCO(ctx); err != nil {
		return result{}, err
	}
	key, err := e.keyOfWMCO(ctx)
	if err != nil {
		return result{}, err
	}
	if _, err := e.ensureKeyOfWMCO(ctx, key); err != nil {
		return result{}, err
	}
	// From now on nobody knows whose the host is until there is an answer. If there is none, nothing configures the host by itself. Nothing was
	// requested so far, unless another process has recorded that as well.
	e.changed = e.operation().ReleaseBegun
	//nolint:contextcheck // what follows is not cut off either
	if err := e.update(e.lifetime, func(op *v1alpha1.Operation) { op.ReleaseBegun = true }); err != nil {
		return result{}, err
	}
	// It takes seconds, and is not cut off: nobody would know whose the host is.
	bounded, cancel := e.limited(e.lifetime)
	defer cancel()
	//nolint:contextcheck // see above
	done, err := e.change(bounded, "Releasing the host.", func(ctx context.Context, instance *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error) {
		return e.Hosts.Release(ctx, instance, releaseToWMCO, report)
	})
	if err == nil && done.Outcome == api.OutcomeFailed {
		err = fmt.Errorf("the host cannot be released: %s", done.Error)
	}
	if err == nil {
		return result{message: describeReleased(done), released: true}, nil
	}
	if !e.changed { // the request has surely not reached the host, or the host has refused it
		//nolint:contextcheck // as above: a cancellation must not keep it from being taken back
		if err := e.update(e.lifetime, func(op *v1alpha1.Operation) { op.ReleaseBegun = false }); err != nil {
			return result{}, err
		}
	}
	return result{}, err
}

// leaveToOthers records that the host is that of others from now on. The next probe says more.
func leaveToOthers(status *v1alpha1.WindowsInstanceStatus) {
	status.Operation.HostReleased, status.Operation.ReleaseBegun = true, false
	status.CurrentRevision, status.PoolRevision, status.PreviousPoolRevision = "", "", ""
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConfigured); c != nil {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: c.Type, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonForeignNode, Message: "The host was released, and is only watched.", ObservedGeneration: c.ObservedGeneration,
		})
	}
}

// nodeToRelease returns the Node of the host.
func (e *execution) nodeToRelease(ctx context.Context) (*corev1.Node, error) {
	known := e.operation().Node
	if known == nil {
		return nil, errors.New("the host has no Node, by which the Windows Machine Config Operator would take it on. To have the host cleaned, delete the instance")
	}
	node, err := e.readNode(ctx, known.Name)
	if err == nil && (node == nil || node.UID != known.UID) {
		err = fmt.Errorf("node %s was deleted", known.Name)
	}
	return node, err
}

// keySecret is the Secret with the key that WMCO logs in to all hosts with.
var keySecret = types.NamespacedName{Namespace: wmco.Namespace, Name: wmco.PrivateKeySecret}

// ensureKeyOfWMCO makes sure that the host accepts the key of WMCO by itself, as WMCO offers nothing else, and deletes the Machines of
// hosts that do not. It returns the host that did.
func (e *execution) ensureKeyOfWMCO(ctx context.Context, key host.Key) (*host.Peer, error) {
	bare, err := ask(ctx, e.clock, e.clock.Now().Add(patience), askTimeout, func(ctx context.Context) (*host.Peer, error) {
		return e.Hosts.LoginBare(ctx, e.instance, keySecret)
	})
	switch {
	case err != nil:
		return nil, e.blame(ctx, "the host cannot be logged in to with the key of the Windows Machine Config Operator", err)
	case bare != nil:
		return bare, nil
	}
	peer, err := ask(ctx, e.clock, e.clock.Now().Add(patience), askTimeout, func(ctx context.Context) (host.Peer, error) {
		return e.Hosts.Login(ctx, e.instance)
	})
	if err != nil {
		return nil, e.blame(ctx, "the host cannot be logged in to", err)
	}
	accepts := "key " + peer.Accepted
	switch {
	case peer.Accepted == "":
		accepts = "a password"
	case peer.Certified:
		accepts = "a certificate of key " + peer.Accepted
	}
	return nil, fmt.Errorf("the host accepts %s, and the Windows Machine Config Operator logs in with nothing but key %s, private-key.pem of Secret %s, and deletes Machines that refuse it. "+
		"Have the host accept that key as well: %s", accepts, key.Fingerprint(), keySecret, host.AddKeyByHand(e.instance, key))
}

// keyOfWMCO is the key that WMCO logs in with. Trouble with the API server passes.
func (e *execution) keyOfWMCO(ctx context.Context) (key host.Key, err error) {
	err = retryAPI(ctx, e.clock, "Reading the key of the Windows Machine Config Operator", doesNotPass, func() (err error) {
		key, err = e.Hosts.BareKey(ctx, keySecret)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return key, context.Cause(ctx)
	case err != nil:
		return key, fmt.Errorf("it is not known which key the Windows Machine Config Operator logs in with: %w", err)
	case key.IsZero():
		return key, fmt.Errorf("secret %s has no key, without which the Windows Machine Config Operator logs in to no host: create it with the key private-key.pem", keySecret)
	}
	return key, nil
}

// releaseNode takes from the Node what says that it is ours. What it has besides stays: labels of its pool, taints, and a cordon of others.
func (e *execution) releaseNode(ctx context.Context) (result, error) {
	name := e.operation().Node.Name
	node, err := e.nodeToRelease(ctx)
	if err != nil {
		return result{}, err
	}
	key, err := e.keyOfWMCO(ctx)
	if err != nil {
		return result{}, err
	}
	entry, err := e.listedForWMCO(ctx, node)
	if err != nil {
		return result{}, err
	}
	lifted, err := e.liftCordons(ctx, node)
	if err != nil {
		return result{}, err
	}
	prove := sync.OnceValues(func() (host.Key, error) { // only where WMCO has a key on record: the host is not needed otherwise
		peer, err := e.ensureKeyOfWMCO(ctx, key)
		if err != nil {
			return host.Key{}, err
		}
		return peer.Key, nil
	})
	forWMCO, err := e.annotationsForWMCO(ctx, node, key, prove)
	if err != nil {
		return result{}, err
	}
	note, err := e.correctHostKeysFor(ctx, node, entry, prove)
	if err != nil {
		return result{}, err
	}
	labels, annotations := object.Release(node, e.Version, entry != "")
	maps.Copy(annotations, forWMCO)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "labels": labels, "annotations": annotations}})
	if err != nil {
		return result{}, err
	}
	// The controller of Nodes may be about to write what it had read before the host was released.
	for first := true; first || object.Ours(node); first = false {
		if err := e.ensureWanted(ctx); err != nil {
			return result{}, err
		}
		if err := e.onNode(ctx, name, func() error {
			_, err := e.Kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
			if apierrors.IsConflict(err) { // it is another one
				return drain.ErrNodeReplaced
			}
			return err
		}); err != nil {
			return result{}, fmt.Errorf("releasing Node %s: %w", name, err)
		}
		if err := e.pause(ctx, "Making sure that Node %s stays released.", name); err != nil {
			return result{}, err
		}
		if node, err = e.nodeToRelease(ctx); err != nil {
			return result{}, err
		}
	}
	message := fmt.Sprintf("Node %s is released.", name)
	if lifted {
		message += " It is not cordoned any more."
	}
	switch version := node.Annotations[wmco.VersionAnnotation]; version {
	case e.Version:
	case "":
		message += " The Windows Machine Config Operator is configuring the host already."
	default:
		message += fmt.Sprintf(" Its annotation %s=%s is not ours, and stays.", wmco.VersionAnnotation, version)
	}
	return result{message: message + note + " " + e.describeTakingOn(ctx)}, nil
}

// annotationsForWMCO are those by which WMCO logs in to the host of a Node: with which key, as whom, and whose host key it expects if it
// has met the host, which prove has the host prove. A host key of another type than the one known here may be right, as a host has several.
func (e *execution) annotationsForWMCO(ctx context.Context, node *corev1.Node, key host.Key, prove func() (host.Key, error)) (map[string]any, error) {
	user, err := e.userForWMCO(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]any{wmco.PublicKeyHashAnnotation: wmco.PublicKeyHash(key.String()), takeover.UsernameAnnotation: user}
	expected, met := node.Annotations[takeover.HostKeyAnnotation]
	if !met {
		return out, nil
	}
	has, err := prove()
	if err != nil {
		return nil, err
	}
	other, err := host.ParseKey(node.Annotations[takeover.HostKeyTypeAnnotation] + " " + expected)
	if err != nil || other.Type() == has.Type() {
		out[takeover.HostKeyAnnotation], out[takeover.HostKeyTypeAnnotation] = has.Base64(), has.Type()
	}
	return out, nil
}

// userForWMCO is the user of the host as WMCO reads it on its Node. Without it WMCO restarts no host, and gives up where it goes through
// all its Nodes.
func (e *execution) userForWMCO(ctx context.Context) (user string, err error) {
	err = retryAPI(ctx, e.clock, "Reading the key of the Windows Machine Config Operator", doesNotPass, func() (err error) {
		user, err = e.Hosts.EncryptUsername(ctx, keySecret, e.instance.Spec.Username)
		return err
	})
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("the user of the host cannot be written for the Windows Machine Config Operator: %w", err)
	}
	return user, nil
}

// liftCordons makes the Node schedulable again if an operation of ours that failed has left it cordoned, and returns whether one had. A
// drain that somebody asked for stays.
func (e *execution) liftCordons(ctx context.Context, node *corev1.Node) (lifted bool, err error) {
	for _, purpose := range []v1alpha1.OperationType{v1alpha1.OperationReconfigure, v1alpha1.OperationReboot} {
		if drain.MarkedFor(node, string(purpose)) == "" {
			continue
		}
		mark := drain.Mark{ID: e.operation().ID, Purpose: string(purpose)}
		if err := e.onNode(ctx, node.Name, func() error {
			_, _, err := drain.Restore(ctx, e.Kube, node.Name, node.UID, mark)
			return err
		}); err != nil {
			return lifted, err
		}
		lifted = true
	}
	return lifted, nil
}

// describeTakingOn says how WMCO comes to have the host, and what comes before that.
func (e *execution) describeTakingOn(ctx context.Context) string {
	others := 0
	nodes, err := e.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: corev1.LabelOSStable + "=windows", ResourceVersion: "0"})
	if err == nil { // the host is released, whether this is known or not
		for i := range nodes.Items {
			if object.Ours(&nodes.Items[i]) {
				others++
			}
		}
	}
	if others == 0 {
		return "The Windows Machine Config Operator takes the host on, with a drain, when it runs. " + takeover.StartWMCO
	}
	return fmt.Sprintf("Other Nodes that are ours: %d. Release their hosts as well (kubectl windows get -A) before the Windows Machine Config Operator runs: "+
		"what it does for all Nodes of Windows, such as writing the certificate of metrics, ends at the first one that is not its own. After that it takes the hosts on, with a drain. %s", others, takeover.StartWMCO)
}

// describeReleased says how the host was left.
func describeReleased(done *api.Result) string {
	message := "The host is released, and nothing was restarted."
	if done.Outcome == api.OutcomeUnchanged {
		message = "The host has nothing of ours any more that manages it."
	}
	var started []string
	for _, i := range done.Changed {
		if i.Kind == api.KindService && i.Action == api.ActionUpdate {
			started = append(started, i.Name)
		}
	}
	if len(started) > 0 {
		message += " Windows starts these services from now on: " + strings.Join(started, ", ") + "."
	}
	if len(done.Reboot) > 0 {
		message += fmt.Sprintf(" Windows waits for a restart: %s.", words.Enumerate(done.Reboot, maxNamed))
	}
	left := done.Left
	if left == nil {
		return message
	}
	if left.Incomplete {
		message += " Its last configuration was not completed, so that it may not work as a node before it is configured again."
	}
	if len(left.Routes) > 0 {
		message += fmt.Sprintf(" After a restart of Windows nobody makes its routes again: %s.", words.Enumerate(left.Routes, maxNamed))
	}
	if left.KeysReplaced {
		message += " Its key was replaced: if user data authorizes the former one at each boot, a restart of Windows takes the key of the Windows Machine Config Operator away, which then deletes the Machine."
	}
	if left.Aside {
		message += " Files that were there before the host was configured are in " + api.ReleasedDirectory + "."
	}
	return message
}

// describeRelease says in what state a host is left whose release ended early. Empty: as it was.
func (e *execution) describeRelease() string {
	i, op := e.instance, e.operation()
	again := fmt.Sprintf("release it again: kubectl windows release %s -n %s", i.Name, i.Namespace)
	switch {
	case op.HostReleased:
		return " The host is released, and its Node still has what says that it is ours: " + again
	case op.ReleaseBegun:
		return fmt.Sprintf(" Its pods run as before. Its agent may be gone, so that nobody repairs the host, and nothing configures it by itself: %s; to keep it: kubectl windows reconfigure %s -n %s", again, i.Name, i.Namespace)
	}
	return " Nothing was changed."
}
