// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package userdata

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	accorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/userdata"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const (
	// fieldManager owns what is applied to the Secrets. It must never change.
	fieldManager = "windows-controller-userdata"
	// interval is how often the Secrets are compared, besides when something has changed.
	interval = time.Minute
)

// Reasons of events, which are about the Secret with the user data of the Machine API.
const (
	eventWritten = "UserDataWritten"
	eventNotKept = "UserDataNotKept"
)

// Reconciler keeps the Secrets. There is one request for both.
type Reconciler struct {
	// live reads from the API server: contents of Secrets are not kept.
	live     client.Reader
	client   client.Client
	recorder record.EventRecorder
	problems *message.Reporter
	// credentials is the Secret with the key of the operator.
	credentials client.ObjectKey
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes one pass. What is wrong is said once, in an event about the Secret of the Machine API.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	platform, err := object.Platform(ctx, r.live)
	switch {
	case errors.Is(err, object.ErrNoPlatform): // user data of another platform would leave new Machines without SSH
	case err != nil:
		return reconcile.Result{}, err
	case platform == "":
		return reconcile.Result{RequeueAfter: interval}, nil
	}
	problems, err := r.keep(ctx, platform)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.problems.Report(secret(wmco.MachineAPINamespace), eventNotKept, problems)
	return reconcile.Result{RequeueAfter: interval}, nil
}

// served says whether somebody names the Secret: on OpenShift with a Machine API, also while that says no platform.
func (r *Reconciler) served(ctx context.Context) (bool, error) {
	platform, err := object.Platform(ctx, r.live)
	if !errors.Is(err, object.ErrNoPlatform) && (err != nil || platform == "") {
		return false, err
	}
	return r.exists(ctx, wmco.MachineAPINamespace)
}

// exists says whether there is a namespace, and will be.
func (r *Reconciler) exists(ctx context.Context, namespace string) (bool, error) {
	there, err := object.Get(ctx, r.live, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	return there != nil && there.DeletionTimestamp.IsZero(), err
}

// keep makes the Secrets what they should be, and returns what keeps it from that, by namespace. platform is empty if the cluster says none.
func (r *Reconciler) keep(ctx context.Context, platform configv1.PlatformType) (problems map[string]string, err error) {
	if served, err := r.exists(ctx, wmco.MachineAPINamespace); err != nil || !served {
		return nil, err
	}
	installed, running, err := r.wmco(ctx)
	if err != nil {
		return nil, err
	}
	if running {
		log.FromContext(ctx).V(1).Info("The user data of Machines is left to the Windows Machine Config Operator, which runs")
		return nil, nil
	}
	if platform == "" {
		return map[string]string{"": fmt.Sprintf("The user data of new Machines is not kept: Infrastructure %s says no platform: %v. "+
			"If it is gone, create it again from a backup: oc create -f BACKUP. Then write its status from there: oc edit infrastructure %[1]s --subresource=status", object.InfrastructureName, object.ErrNoPlatform)}, nil
	}
	want, problem, err := r.want(ctx, platform)
	if err != nil || problem != "" {
		return map[string]string{"": problem}, err
	}
	problems = map[string]string{}
	for _, namespace := range []string{wmco.MachineAPINamespace, wmco.ClusterAPINamespace} {
		if there, err := r.exists(ctx, namespace); err != nil {
			return nil, err
		} else if !there {
			continue
		}
		if problem, err = r.keepIn(ctx, namespace, want, installed); err != nil {
			return nil, err
		} else if problem != "" {
			problems[namespace] = problem
		}
	}
	return problems, nil
}

// Outdated says why no Machine is to be replaced so that its host gets the key that is in use: a clause, with the command
// that shows more. Empty: new Machines get user data with that key, whoever wrote it. While WMCO runs the user data is not
// ours to judge.
func Outdated(ctx context.Context, live client.Reader, credentials client.ObjectKey) (why string, err error) {
	r := &Reconciler{live: live, credentials: credentials}
	platform, err := object.Platform(ctx, r.live)
	switch {
	case errors.Is(err, object.ErrNoPlatform):
		return fmt.Sprintf("the user data of Machines is not kept while Infrastructure %s says no platform. See: kubectl get events -n %s --field-selector involvedObject.name=%s",
			object.InfrastructureName, wmco.MachineAPINamespace, wmco.UserDataSecret), nil
	case err != nil:
		return "", err
	case platform == "":
		return "the user data of Machines is only kept on OpenShift. See: kubectl get infrastructure " + object.InfrastructureName, nil
	}
	installed, running, err := r.wmco(ctx)
	if err != nil {
		return "", err
	}
	if running {
		return fmt.Sprintf("the Windows Machine Config Operator runs, and decides about Machines. See: kubectl logs -n %s deployment/%s", wmco.Namespace, wmco.Deployment), nil
	}
	of := client.ObjectKeyFromObject(secret(wmco.MachineAPINamespace))
	outdated := fmt.Sprintf("the user data of a new one would not authorize the key either. See: kubectl get events -n %s --field-selector involvedObject.name=%s", of.Namespace, of.Name)
	want, problem, err := r.want(ctx, platform)
	if err != nil {
		return "", err
	}
	if problem != "" {
		return outdated, nil
	}
	have, err := object.Get(ctx, live, of, &corev1.Secret{})
	if err != nil {
		return "", err
	}
	if have == nil {
		return outdated, nil
	}
	if bytes.Equal(have.Data[wmco.UserDataKey], want.script) {
		return "", nil
	}
	if what, _, err := r.decide(ctx, have, want, installed); err != nil || what == leaveToWMCO {
		return "", err
	}
	return outdated, nil
}

// wmco says whether WMCO is installed, and whether it runs.
func (r *Reconciler) wmco(ctx context.Context) (installed, running bool, err error) {
	deployment, err := object.Get(ctx, r.live, client.ObjectKey{Namespace: wmco.Namespace, Name: wmco.Deployment}, &appsv1.Deployment{})
	if err != nil {
		return false, false, err
	}
	return deployment != nil, runs(deployment), nil
}

// decide is [decide] for a WMCO that does not run, and what it has left by which it may return.
func (r *Reconciler) decide(ctx context.Context, current *corev1.Secret, want content, installed bool) (what action, left string, err error) {
	if what = decide(current, want, true); what == decide(current, want, false) {
		return what, "", nil // Nodes may be many
	}
	left, err = r.left(ctx, installed)
	return decide(current, want, left != ""), left, err
}

// left is what WMCO has left by which it may return: its Deployment, or a Node. Whoever installs it again, for its update or because it is
// stuck, deletes the Deployment, and nobody tells us what for. Its Nodes stay, until their hosts are adopted. Empty: it has left nothing.
func (r *Reconciler) left(ctx context.Context, installed bool) (string, error) {
	if installed {
		return fmt.Sprintf("Deployment %s/%s", wmco.Namespace, wmco.Deployment), nil
	}
	var nodes corev1.NodeList
	if err := r.live.List(ctx, &nodes, client.MatchingLabels{corev1.LabelOSStable: "windows"}); err != nil {
		return "", fmt.Errorf("listing the Nodes of Windows: %w", err)
	}
	for i := range nodes.Items {
		if object.MarkedByWMCO(&nodes.Items[i]) {
			return "Nodes", nil // without a name: one after the other is adopted
		}
	}
	return "", nil
}

// want is the user data for the key of the operator, the first one that is not compromised, or what is wrong with that.
func (r *Reconciler) want(ctx context.Context, platform configv1.PlatformType) (want content, problem string, err error) {
	create := fmt.Sprintf("Create it: kubectl create secret generic %s -n %s --from-file=private-key.pem=KEYFILE", r.credentials.Name, r.credentials.Namespace)
	var credentials corev1.Secret
	err = r.live.Get(ctx, r.credentials, &credentials)
	switch {
	case apierrors.IsNotFound(err):
		return content{}, r.broken("does not exist", create), nil
	case apierrors.IsForbidden(err):
		return content{}, r.broken("may not be read", "Let the controller read it: "+host.AllowReadingCommand(r.credentials)), nil
	case err != nil:
		return content{}, "", fmt.Errorf("reading Secret %s: %w", r.credentials, err)
	}
	compromised, err := r.compromised(ctx, &credentials)
	if err != nil {
		return content{}, "", err
	}
	first, err := host.PublicKey(credentials.Data)
	if err != nil {
		return content{}, r.broken(err.Error(), "Delete it. "+create), nil
	}
	key, err := host.SoundPublicKey(credentials.Data, compromised)
	if err != nil {
		return content{}, r.broken(err.Error(), "Delete it. "+create), nil
	}
	if key.IsZero() {
		return content{}, r.broken(fmt.Sprintf("has no key that is not said to be compromised (%s)", v1alpha1.CompromisedKeysAnnotation),
			fmt.Sprintf("Put a new one in the place of private-key.pem: ssh-keygen -t ed25519 -N '' -f new-key && "+
				"kubectl create secret generic %s -n %s --from-file=private-key.pem=new-key --dry-run=client -o yaml | kubectl apply -f -", r.credentials.Name, r.credentials.Namespace)), nil
	}
	script, err := userdata.Script(platform, key.String())
	if err != nil {
		return content{}, "", fmt.Errorf("making user data for the key in Secret %s: %w", r.credentials, err)
	}
	return content{script: script, key: key.String(), first: first.String()}, "", nil
}

// compromised are the fingerprints of the keys that somebody else may have: by the Secret itself, and by the one with the copies,
// which is about all Secrets of its namespace.
func (r *Reconciler) compromised(ctx context.Context, credentials *corev1.Secret) ([]string, error) {
	name := client.ObjectKey{Namespace: r.credentials.Namespace, Name: host.KeptSecret}
	copies, err := object.Get(ctx, r.live, name, &corev1.Secret{})
	if err != nil && !apierrors.IsForbidden(err) { // as for those who log in, the Secret itself may be all that is needed
		return nil, err
	}
	named := host.CompromisedKeys(credentials.Annotations)
	if copies != nil {
		named = append(named, host.CompromisedKeys(copies.Annotations)...)
	}
	return named, nil
}

// broken says that new Machines get no key of the operator, or one that is no longer in use, and what to do.
func (r *Reconciler) broken(why, fix string) string {
	return fmt.Sprintf("The user data of new Machines is not kept: Secret %s %s %s", r.credentials, message.Cause(why), fix)
}

// keepIn makes the Secret of one namespace what it should be, or returns what keeps it from that.
func (r *Reconciler) keepIn(ctx context.Context, namespace string, want content, installed bool) (problem string, err error) {
	key := client.ObjectKeyFromObject(secret(namespace))
	current, err := object.Get(ctx, r.live, key, &corev1.Secret{})
	if apierrors.IsForbidden(err) {
		return notAllowed(key, err), nil
	}
	if err != nil {
		return "", err
	}
	what, left, err := r.decide(ctx, current, want, installed)
	if err != nil {
		return "", err
	}
	switch what {
	case keep:
		return "", nil
	case leaveToWMCO:
		log.FromContext(ctx).V(1).Info("The user data of Machines is that of the Windows Machine Config Operator, which may return, and has the key", "secret", key, "left", left)
		return "", nil
	case leaveCompromised:
		return keepsCompromised(key, r.credentials, left), nil
	case missing:
		return notMade(key, left), nil
	case leave:
		return theirs(key), nil
	}
	data := map[string][]byte{}
	for _, key := range keysIn(namespace) {
		data[key] = want.script
	}
	apply := accorev1.Secret(key.Name, key.Namespace).
		WithLabels(map[string]string{managedByLabel: managedBy}).
		WithData(data)
	options := []client.ApplyOption{client.FieldOwner(fieldManager)}
	if current != nil {
		// Nothing that somebody has written since is overwritten unseen. To create it nobody needs to be overruled.
		apply.WithUID(current.UID).WithResourceVersion(current.ResourceVersion)
		options = append(options, client.ForceOwnership)
	}
	err = r.client.Apply(ctx, apply, options...)
	switch {
	case apierrors.IsForbidden(err):
		return notAllowed(key, err), nil
	case apierrors.IsInvalid(err):
		return fmt.Sprintf("Secret %s cannot be written: %s", key, message.Cause(err.Error())), nil
	case err != nil:
		return "", fmt.Errorf("applying Secret %s: %w", key, err)
	}
	log.FromContext(ctx).Info("Wrote the user data of Machines", "secret", key, "it", string(what))
	r.recorder.Event(secret(namespace), corev1.EventTypeNormal, eventWritten, fmt.Sprintf("Secret %s %s. Machines that exist are not recreated.", key, what))
	return "", nil
}

// notAllowed says that a Role is missing.
func notAllowed(key client.ObjectKey, cause error) string {
	manifest := "artifacts/openshift/machine-api.yaml"
	if key.Namespace == wmco.ClusterAPINamespace {
		manifest = "artifacts/openshift/cluster-api.yaml"
	}
	return fmt.Sprintf("Secret %s may not be read or written: kubectl apply -f %s. The cause is: %s", key, manifest, message.Cause(cause.Error()))
}

// secret is the one of a namespace, without what is in it.
func secret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: wmco.UserDataSecret},
	}
}
