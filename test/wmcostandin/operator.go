// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// deploymentName is what WMCO runs as.
	deploymentName = "windows-machine-config-operator"
	// interval is how often the stand-in looks whether there is something to do.
	interval = 200 * time.Millisecond
	// defaultPatience is [Operator.patience] outside unit tests. The real one waits for ten minutes.
	defaultPatience = 5 * time.Minute
)

// Options are for [Start].
type Options struct {
	// Client and Kube have all rights, and Client knows Machines. Required.
	Client client.Client
	Kube   kubernetes.Interface
	// Namespace is where the Deployment, the inputs and the key are. Required.
	Namespace string
	// Version is that of WMCO. Required.
	Version string
	// MachineUser is whom WMCO logs in to hosts of Machines as. Empty: Administrator.
	MachineUser string
	// Host returns the stand-in for the host at an address.
	Host func(address string) (Host, error)
}

// Operator is a WMCO. It works while its Deployment has replicas.
type Operator struct {
	Options

	client client.Client
	// patience is for how long it waits for a Node to be there, and for its version.
	patience time.Duration
	daemons  daemons
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	deeds    []string
	problems []string
}

// Start starts it. The caller stops it.
func Start(o Options) *Operator {
	if o.MachineUser == "" {
		o.MachineUser = "Administrator"
	}
	ctx, stop := context.WithCancel(context.Background())
	started := &Operator{Options: o, client: o.Client, patience: defaultPatience, stop: stop}
	started.running.Go(func() { started.runDaemons(ctx) })
	started.running.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := started.pass(ctx); err != nil && ctx.Err() == nil {
				started.fails(err.Error())
			}
		}, interval)
	})
	return started
}

// Stop ends it, and its daemons.
func (o *Operator) Stop() {
	o.stop()
	o.running.Wait()
}

// Deeds are what it has completed, in order: a [Deed] and the address of the host, or the version.
func (o *Operator) Deeds() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.deeds)
}

// Problems are what has kept it from something, each once.
func (o *Operator) Problems() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.problems)
}

// did notes what was completed, each time.
func (o *Operator) did(deed Deed, about string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deeds = append(o.deeds, string(deed)+" "+about)
}

// fails notes what has gone wrong, once if it does again.
func (o *Operator) fails(problem string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.problems); n == 0 || o.problems[n-1] != problem {
		o.problems = append(o.problems, problem)
	}
}

// pass looks at everything once.
func (o *Operator) pass(ctx context.Context) error {
	deployment, err := o.Kube.AppsV1().Deployments(o.Namespace).Get(ctx, deploymentName, getOptions)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if replicas := deployment.Spec.Replicas; replicas != nil && *replicas == 0 {
		return nil
	}
	state, key, err := o.read(ctx)
	if err != nil {
		return err
	}
	errs := []error{readUsers(state.Nodes, key), o.keepServices(ctx, state.Nodes), o.keepUserData(ctx, state, key)}
	if state.UserDataDiffers { // so that the Nodes are others
		if state, key, err = o.read(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	for i := range state.Machines {
		if a := state.Machine(&state.Machines[i]); a != nil {
			errs = append(errs, o.do(ctx, a, key))
		}
	}
	for _, a := range state.Listed() {
		if err := o.do(ctx, a, key); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// keepServices has the ConfigMap be there that daemons read the services of this version from, and removes those of versions that no Node
// has. The real one does so when it starts, when a Node has become one of its version, and when one of another version was deleted.
func (o *Operator) keepServices(ctx context.Context, nodes []corev1.Node) error {
	err := o.client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: servicesPrefix + o.Version}, Data: map[string]string{"services": "[]", "files": "[]"},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	var published corev1.ConfigMapList
	if err := o.client.List(ctx, &published, client.InNamespace(o.Namespace)); err != nil {
		return err
	}
	for i := range published.Items {
		version, is := strings.CutPrefix(published.Items[i].Name, servicesPrefix)
		if !is || version == o.Version || slices.ContainsFunc(nodes, func(n corev1.Node) bool { return isWindows(&n) && n.Annotations[versionName] == version }) {
			continue
		}
		if err := o.client.Delete(ctx, &published.Items[i]); err != nil {
			return err
		}
		o.did(RemoveServices, version)
	}
	return nil
}

// readUsers is how each change that concerns all hosts begins: it ends at the first Node whose user cannot be read. One that is being
// configured has none yet.
func readUsers(nodes []corev1.Node, key *credentials) error {
	for i := range nodes {
		n := &nodes[i]
		if _, configured := n.Annotations[versionName]; !isWindows(n) || !configured {
			continue
		}
		if _, err := key.decrypt(n.Annotations[usernameName]); err != nil {
			return fmt.Errorf("the user of Node %s: %w", n.Name, err)
		}
	}
	return nil
}

// do does something about a host.
func (o *Operator) do(ctx context.Context, a *Action, key *credentials) error {
	var err error
	switch a.Deed {
	case Wait:
		err = errors.New("another Node is being upgraded")
	case Refuse:
		err = errors.New("the user data of Machines is not that of this operator")
	case DeleteMachine:
		err = o.client.Delete(ctx, a.Machine)
	case Deconfigure:
		err = o.deconfigure(ctx, a, key)
	case Configure, Upgrade:
		err = o.bringUp(ctx, a, key)
		if errors.Is(err, errRefused) && a.Machine != nil {
			a.Deed, err = DeleteMachine, o.client.Delete(ctx, a.Machine)
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", a.Deed, a.Address, err)
	}
	o.did(a.Deed, a.Address)
	return nil
}

// deconfigure removes a host that has no entry any more.
func (o *Operator) deconfigure(ctx context.Context, a *Action, key *credentials) (err error) {
	if a.User, err = key.decrypt(a.Node.Annotations[usernameName]); err != nil {
		return err
	}
	host, err := o.login(ctx, a, key)
	if err != nil {
		return err
	}
	if err := o.drain(ctx, a.Node); err != nil {
		return err
	}
	if err := o.clean(ctx, host, a.Node); err != nil {
		return err
	}
	if err := o.forgetHostKey(ctx, a.Address); err != nil {
		return err
	}
	return o.client.Delete(ctx, a.Node)
}

// bringUp makes a host a node of this version.
func (o *Operator) bringUp(ctx context.Context, a *Action, key *credentials) error {
	host, err := o.login(ctx, a, key)
	if err != nil {
		return err
	}
	if a.Deed == Upgrade {
		if err := o.change(ctx, a.Node, func(n *corev1.Node) { setLabel(n, upgradingLabel, "true") }); err != nil {
			return err
		}
		if err := o.drain(ctx, a.Node); err != nil {
			return err
		}
	}
	if err := o.clean(ctx, host, a.Node); err != nil {
		return err
	}
	name, err := host.configure(a.Node)
	if err != nil {
		return err
	}
	o.daemons.put(host)
	node, err := o.awaitNode(ctx, name, isReady)
	if err != nil {
		return errors.Join(err, o.stopDaemon(ctx, host, a.Node))
	}
	if err := o.complete(ctx, node, a, key); err != nil {
		return errors.Join(err, o.stopDaemon(ctx, host, node))
	}
	return nil
}

// clean has a host be as it was before it was configured.
func (o *Operator) clean(ctx context.Context, host Host, node *corev1.Node) error {
	if err := o.stopDaemon(ctx, host, node); err != nil {
		return err
	}
	return host.clean(ctx)
}

// stopDaemon has the daemon remove all services, and say so. The Node stays as it is else: cordoned, and with the label of an upgrade.
func (o *Operator) stopDaemon(ctx context.Context, host Host, node *corev1.Node) error {
	o.daemons.remove(host)
	if node != nil {
		if err := o.change(ctx, node, func(n *corev1.Node) { delete(n.Annotations, versionName) }); err != nil {
			return err
		}
	}
	return host.stop(ctx)
}

// complete writes what a node of this version has, waits until its daemon has made it one, and has pods come back.
func (o *Operator) complete(ctx context.Context, node *corev1.Node, a *Action, key *credentials) error {
	user, err := key.encrypt(a.User)
	if err != nil {
		return err
	}
	met, err := o.hostKey(ctx, node, a.Address)
	if err != nil {
		return err
	}
	if err := o.change(ctx, node, func(n *corev1.Node) {
		setLabel(n, workerLabel, "")
		if a.Machine == nil {
			setLabel(n, byohLabel, "true")
		}
		setAnnotation(n, keyHashName, Hash(key.signer.PublicKey()))
		setAnnotation(n, usernameName, user)
		if met != nil {
			setAnnotation(n, hostKeyName, met.encoded())
			setAnnotation(n, hostKeyTypeName, met.Type())
		}
		n.Spec.Unschedulable = true
	}); err != nil {
		return err
	}
	if err := o.forgetHostKey(ctx, a.Address); err != nil {
		return err
	}
	if err := o.change(ctx, node, func(n *corev1.Node) { setAnnotation(n, desiredName, o.Version) }); err != nil {
		return err
	}
	if _, err := o.awaitNode(ctx, node.Name, func(n *corev1.Node) bool { return n.Annotations[versionName] == o.Version }); err != nil {
		return fmt.Errorf("waiting for version %s of Node %s: %w", o.Version, node.Name, err)
	}
	return o.change(ctx, node, func(n *corev1.Node) {
		n.Spec.Unschedulable = false
		delete(n.Labels, upgradingLabel)
	})
}

// awaitNode waits until the Node of a host is there and as it is to be.
func (o *Operator) awaitNode(ctx context.Context, name string, is func(*corev1.Node) bool) (node *corev1.Node, err error) {
	err = wait.PollUntilContextTimeout(ctx, interval, o.patience, true, func(ctx context.Context) (bool, error) {
		node = &corev1.Node{}
		if err := o.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return is(node), nil
	})
	return node, err
}

// drain has pods leave at once, as the real one does.
func (o *Operator) drain(ctx context.Context, node *corev1.Node) error {
	helper := &drain.Helper{Ctx: ctx, Client: o.Kube, Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, Out: io.Discard, ErrOut: io.Discard}
	now, err := o.Kube.CoreV1().Nodes().Get(ctx, node.Name, getOptions)
	if err != nil {
		return err
	}
	return errors.Join(drain.RunCordonOrUncordon(helper, now, true), drain.RunNodeDrain(helper, node.Name))
}

// change changes a Node as it is now.
func (o *Operator) change(ctx context.Context, node *corev1.Node, change func(*corev1.Node)) error {
	now := &corev1.Node{}
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(node), now); err != nil {
		return err
	}
	before := client.MergeFrom(now.DeepCopy())
	change(now)
	return o.client.Patch(ctx, now, before)
}

func setLabel(n *corev1.Node, name, value string) {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[name] = value
}

func setAnnotation(n *corev1.Node, name, value string) {
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[name] = value
}
