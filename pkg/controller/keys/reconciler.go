// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	accorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// fieldManager owns what this controller applies. It must never change.
const fieldManager = "windows-controller-keys"

// Reasons of the events of a Secret with credentials.
const (
	eventRotating  = "KeyRotationStarted"
	eventRotated   = "KeyRotated"
	eventNotKept   = "KeyNotKept"
	eventHasKey    = "CompromisedKey"
	eventRestored  = "KeysRestored"
	keeperRoleName = "windows-credentials-keeper"
)

// Reconciler keeps the keys of the Secrets of one namespace, which a request names.
type Reconciler struct {
	Options

	client  client.Client
	metrics metrics
	// measured are the Secrets of hosts that the metrics have, and bastions those of bastions, by namespace. There is one worker.
	measured, bastions map[string][]string
	// now is the clock.
	now func() time.Time
	// refused are the namespaces in which nothing can be kept, and when that was said.
	refused map[string]time.Time
	// full are the Secrets for which there is no room, and when that was said.
	full map[types.NamespacedName]time.Time
	// compromised is what was said of the compromised keys of Secrets.
	compromised map[types.NamespacedName]string
	// holds are the namespaces in which something was kept when that was read.
	holds map[string]bool
	// written is what the kept Secrets have by the last pass, by namespace: there is no other copy of keys that hosts still have.
	written map[string]keptSecret
	// credentials are those that were read.
	credentials host.CredentialCache
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

func newReconciler(c client.Client, o Options) *Reconciler {
	return &Reconciler{Options: o, client: c, metrics: newMetrics(o.Registerer), now: time.Now, measured: map[string][]string{}, bastions: map[string][]string{}, refused: map[string]time.Time{}, full: map[types.NamespacedName]time.Time{}, compromised: map[types.NamespacedName]string{}, holds: map[string]bool{}, written: map[string]keptSecret{}}
}

// keptSecret is what is in a kept Secret.
type keptSecret struct {
	data map[string][]byte
	// compromised is the annotation of that name.
	compromised string
}

// secretState is a Secret with credentials as it is found, and what is to be kept of it.
type secretState struct {
	secret        *corev1.Secret
	before, after host.Kept
	progress      progress
	// needed are the keys of which certificates are needed.
	needed []string
	// goBack are the hosts that may accept a former key again after a boot.
	goBack []string
}

// Reconcile keeps the keys of the Secrets in a namespace, and says when their certificates expire.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	u, err := instancesBySecret(ctx, r.client, r.Cluster)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := r.reconcileKeys(ctx, req.Name, u)
	bastions, wrong := r.measureBastions(ctx, req.Name, u)
	if bastions && result.RequeueAfter == 0 {
		result.RequeueAfter = interval
	}
	return result, errors.Join(err, wrong)
}

// reconcileKeys keeps the keys of the Secrets of hosts in a namespace.
func (r *Reconciler) reconcileKeys(ctx context.Context, namespace string, u usage) (reconcile.Result, error) {
	names := slices.SortedFunc(maps.Keys(u.instances), func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
	names = slices.DeleteFunc(names, func(n types.NamespacedName) bool { return n.Namespace != namespace })
	inUse := slices.ContainsFunc(names, func(n types.NamespacedName) bool { return loggedIn(u.instances[n]) })
	if !inUse && namespace != r.Cluster.Namespace && r.measured[namespace] == nil && !r.holds[namespace] {
		return reconcile.Result{}, nil // perhaps nobody lets us read Secrets there
	}
	kept := &corev1.Secret{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: host.KeptSecret}, kept)
	unread := apierrors.IsForbidden(err)
	if err != nil && !apierrors.IsNotFound(err) && !unread {
		return reconcile.Result{}, fmt.Errorf("reading Secret %s/%s: %w", namespace, host.KeptSecret, err)
	}
	switch {
	case len(kept.Data) > 0:
		r.holds[namespace] = true
	case !unread:
		delete(r.holds, namespace)
	}
	if len(kept.Data) == 0 && !inUse {
		delete(r.written, namespace)
		r.forget(namespace, names)
		return reconcile.Result{}, nil
	}
	known, lost := r.recall(namespace, kept, apierrors.IsNotFound(err), unread, u.instances)
	var entries []entry
	var states []secretState
	var errs []error
	compromised := host.CompromisedKeys(map[string]string{v1alpha1.CompromisedKeysAnnotation: known.compromised}) // of all Secrets, also those that are gone
	for _, name := range names {
		e, state, err := r.look(ctx, name, known.data[name.Name], compromised, u.instances[name])
		if err != nil {
			errs = append(errs, err)
		} else {
			r.measureCertificates(name, state)
		}
		entries = append(entries, e)
		if state != nil {
			states = append(states, *state)
		}
	}
	var unused []string
	for _, name := range slices.Sorted(maps.Keys(known.data)) {
		if u.instances[types.NamespacedName{Namespace: namespace, Name: name}] == nil {
			unused = append(unused, name)
		}
	}
	read := nextUnused(unused, r.now())
	for _, name := range unused {
		e, err := r.lookUnused(ctx, types.NamespacedName{Namespace: namespace, Name: name}, known.data[name], compromised, slices.Contains(read, name))
		if err != nil {
			errs = append(errs, err)
		}
		entries = append(entries, e)
	}
	data, refused := fit(entries, maxSecretBytes)
	states = r.sayFull(namespace, states, refused)
	if !unread { // who may write, and may not read at the moment, would write over keys that hosts still have
		err = r.write(ctx, namespace, kept, data)
	}
	if err == nil && lost && !unread && len(data) > 0 && kept.Annotations[v1alpha1.CompromisedKeysAnnotation] != known.compromised {
		err = r.annotate(ctx, namespace, known.compromised)
	}
	switch {
	case apierrors.IsForbidden(err):
		r.sayRefused(namespace, states)
	case err != nil:
		errs = append(errs, err)
	default:
		delete(r.refused, namespace)
		if !unread {
			r.written[namespace] = keptSecret{data, known.compromised}
		}
		if lost {
			r.sayRestored(namespace, len(data))
		}
		for _, s := range states {
			r.report(s)
		}
	}
	r.forget(namespace, names)
	for _, s := range states {
		r.measure(client.ObjectKeyFromObject(s.secret), &s.progress)
	}
	return reconcile.Result{RequeueAfter: r.next(states)}, errors.Join(errs...)
}

// next is when to look again.
func (r *Reconciler) next(states []secretState) time.Duration {
	next := interval
	for _, s := range states {
		if since := s.after.RotatedAt; since != nil {
			if in := since.Add(2 * r.ProbeTimeout).Sub(r.now()); in > 0 {
				next = min(next, max(in, time.Second))
			}
		}
	}
	return next
}

// look returns what is to be kept of a Secret, of which text was kept. Of one that cannot be read, or is none to log in with, it stays as
// it is, but for compromised keys.
func (r *Reconciler) look(ctx context.Context, name types.NamespacedName, text []byte, compromised []string, instances []*v1alpha1.WindowsInstance) (entry, *secretState, error) {
	e := entry{name: name.Name, before: text, after: text, inUse: true}
	if !loggedIn(instances) && len(text) == 0 {
		return e, nil, nil
	}
	secret, err := r.readSecret(ctx, name)
	if err != nil {
		return e, nil, err
	}
	compromised = alsoBy(secret, compromised) // without it the condition Authenticated of its instances says so
	before, err := host.ParseKept(text)
	if err != nil {
		before = host.Kept{} // somebody has changed it: what can be kept is kept again
	} else if e.before, err = withdraw(&before, text, compromised); err != nil {
		return e, nil, err
	}
	e.after = e.before
	if !loggedIn(instances) {
		return e, nil, nil
	}
	if secret == nil {
		r.Current.set(name, nil)
		return e, nil, nil
	}
	now, err := r.credentials.Keep(secret.Data)
	if err != nil {
		r.Current.set(name, nil)
		return e, nil, nil //nolint:nilerr // the condition Authenticated says so
	}
	sound := fingerprintsOf(soundOf(now, compromised))
	r.Current.set(name, sound)
	r.sayCompromised(secret, r.credentials.Compromised(name, secret.Data, compromised))
	after := keep(before, now, compromised, instances, r.now().UTC(), 2*r.ProbeTimeout)
	state := &secretState{secret: secret, before: before, after: after, progress: progressOf(instances, sound...), needed: needed(sound, instances)}
	for _, i := range instances {
		if mayGoBack(i) {
			state.goBack = append(state.goBack, i.Name)
		}
	}
	if len(after.Credentials) == 0 && after.RotatingTo == "" {
		e.after = nil
		return e, state, nil
	}
	encoded, err := after.Encode()
	if err != nil {
		return e, state, err
	}
	e.after = encoded
	return e, state, nil
}

// lookUnused returns what is to be kept of a Secret that no instance has, of which text was kept. read: the Secret may be read, which
// names keys that are compromised.
func (r *Reconciler) lookUnused(ctx context.Context, name types.NamespacedName, text []byte, compromised []string, read bool) (entry, error) {
	e := entry{name: name.Name, before: text}
	before, err := host.ParseKept(text)
	if err != nil {
		return e, nil //nolint:nilerr // nobody can use it
	}
	e.after = text
	if read && slices.ContainsFunc(before.Credentials, host.KeptCredential.LogsIn) {
		secret, err := r.readSecret(ctx, name)
		if err != nil {
			return e, err
		}
		compromised = alsoBy(secret, compromised)
	}
	if e.before, err = withdraw(&before, text, compromised); err != nil {
		return e, err
	}
	after := keepUnused(before, r.now().UTC())
	if len(after.Credentials) == 0 {
		e.after = nil
		return e, nil
	}
	encoded, err := after.Encode()
	if err != nil {
		return e, err
	}
	e.after = encoded
	return e, nil
}

// alsoBy are compromised keys with those that the annotation of a Secret names. Nil: there is no Secret.
func alsoBy(secret *corev1.Secret, compromised []string) []string {
	if secret == nil {
		return compromised
	}
	return append(host.CompromisedKeys(secret.Annotations), compromised...)
}

// readSecret reads a Secret with credentials. Nil: it is gone, or may not be read.
func (r *Reconciler) readSecret(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.client.Get(ctx, name, secret)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return secret, nil
}

// loggedIn says whether a host of the instances was ever logged in to: else there is nothing to keep.
func loggedIn(instances []*v1alpha1.WindowsInstance) bool {
	return slices.ContainsFunc(instances, func(i *v1alpha1.WindowsInstance) bool { return i.Status.Credentials != nil })
}

// write makes the kept Secret have data, and removes it if that is nothing. What it has to have no more is taken away by name: an entry
// that somebody else owns as well, as who has restored the Secret from a backup does, stays where it is only left out.
func (r *Reconciler) write(ctx context.Context, namespace string, kept *corev1.Secret, data map[string][]byte) error {
	switch {
	case maps.EqualFunc(kept.Data, data, bytes.Equal):
		return nil
	case len(data) == 0:
		err := r.client.Delete(ctx, kept, client.Preconditions{UID: &kept.UID, ResourceVersion: &kept.ResourceVersion})
		return client.IgnoreNotFound(err)
	}
	ended := map[string][]byte{}
	for name := range kept.Data {
		if _, stays := data[name]; !stays {
			ended[name] = nil
		}
	}
	if len(ended) > 0 {
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": kept.UID, "resourceVersion": kept.ResourceVersion}, "data": ended,
		})
		if err != nil {
			return fmt.Errorf("removing entries of Secret %s/%s: %w", namespace, host.KeptSecret, err)
		}
		kept = kept.DeepCopy() // the one that was read belongs to the cache
		if err := r.client.Patch(ctx, kept, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)); err != nil {
			return fmt.Errorf("removing entries of Secret %s/%s: %w", namespace, host.KeptSecret, err)
		}
		if maps.EqualFunc(kept.Data, data, bytes.Equal) {
			return nil
		}
	}
	secret := accorev1.Secret(host.KeptSecret, namespace).WithType(corev1.SecretTypeOpaque).WithData(data)
	if kept.ResourceVersion != "" {
		secret = secret.WithResourceVersion(kept.ResourceVersion)
	}
	if err := r.client.Apply(ctx, secret, client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", namespace, host.KeptSecret, err)
	}
	return nil
}

// report records the begin and the end of a rotation.
func (r *Reconciler) report(s secretState) {
	switch {
	case s.after.RotatingTo != "" && s.after.RotatingTo != s.before.RotatingTo:
		r.Recorder.Eventf(s.secret, corev1.EventTypeNormal, eventRotating, "%d of %d hosts have none of its keys, and get %s. A key that they had is kept until all of them have it.",
			s.progress.former, s.progress.total(), s.after.RotatingTo)
	case s.after.RotatingTo == "" && s.before.RotatingTo != "" && len(s.goBack) > 0:
		r.Recorder.Eventf(s.secret, corev1.EventTypeNormal, eventRotated, "All %d hosts have the key of the Secret. Copies of former ones stay until these Machines are configured here, because user data may authorize one again when they boot: %s",
			s.progress.total(), words.Enumerate(s.goBack, maxNamed))
	case s.after.RotatingTo == "" && s.before.RotatingTo != "":
		r.Recorder.Eventf(s.secret, corev1.EventTypeNormal, eventRotated, "All %d hosts have the key of the Secret. Former ones are not needed any longer.", s.progress.total())
	}
}

// recall returns what the kept Secret of a namespace has, with what the last pass has written there and somebody has taken away since, and whether
// somebody has: the whole Secret, or the entries of Secrets that instances have.
func (r *Reconciler) recall(namespace string, kept *corev1.Secret, deleted, unread bool, instances map[types.NamespacedName][]*v1alpha1.WindowsInstance) (known keptSecret, lost bool) {
	before := r.written[namespace]
	known = keptSecret{kept.Data, kept.Annotations[v1alpha1.CompromisedKeysAnnotation]}
	switch {
	case unread || len(before.data) == 0:
		return known, false
	case deleted:
		return before, true
	}
	for name, text := range before.data {
		if _, there := kept.Data[name]; there || !loggedIn(instances[types.NamespacedName{Namespace: namespace, Name: name}]) {
			continue
		}
		if !lost {
			lost, known.data = true, map[string][]byte{}
			maps.Copy(known.data, kept.Data)
		}
		known.data[name] = text
	}
	return known, lost
}

// annotate names the compromised keys on a kept Secret that was written again.
func (r *Reconciler) annotate(ctx context.Context, namespace, compromised string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.CompromisedKeysAnnotation: compromised}}})
	if err != nil {
		return fmt.Errorf("naming the compromised keys on Secret %s/%s: %w", namespace, host.KeptSecret, err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: host.KeptSecret}}
	if err := r.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("naming the compromised keys on Secret %s/%s: %w", namespace, host.KeptSecret, err)
	}
	return nil
}

// sayRestored records that something was taken from the kept Secret, which has keys of so many Secrets again.
func (r *Reconciler) sayRestored(namespace string, secrets int) {
	r.Recorder.Eventf(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: host.KeptSecret}}, corev1.EventTypeWarning, eventRestored,
		"Somebody has taken keys out of it, or deleted it. It has those of %d Secrets again: hosts may accept keys of which there is no other copy. To have nobody log in with a key any more, name it: "+
			"kubectl annotate secret %s -n %s --overwrite %s=FINGERPRINT", secrets, host.KeptSecret, namespace, v1alpha1.CompromisedKeysAnnotation)
}

// isDue says whether something is to be said that lasts, and was said at a time, if it was.
func (r *Reconciler) isDue(said time.Time) bool { return r.now().Sub(said) >= message.RepeatAfter }

// sayRefused records that keys cannot be kept.
func (r *Reconciler) sayRefused(namespace string, states []secretState) {
	if !r.isDue(r.refused[namespace]) {
		return
	}
	r.refused[namespace] = r.now()
	for _, s := range states {
		r.Recorder.Eventf(s.secret, corev1.EventTypeWarning, eventNotKept, "The key of this Secret cannot be kept, so that its %d hosts get no other one. Let windows-controller keep it: "+
			"kubectl create rolebinding %s -n %s --clusterrole=%s --serviceaccount=%s:windows-controller",
			s.progress.total(), keeperRoleName, namespace, keeperRoleName, r.Cluster.Namespace)
	}
}

// sayCompromised records, once, that a Secret has compromised keys. warning says which; empty: it has none.
func (r *Reconciler) sayCompromised(secret *corev1.Secret, warning string) {
	name := client.ObjectKeyFromObject(secret)
	switch {
	case warning == "":
		delete(r.compromised, name)
	case warning != r.compromised[name]:
		r.compromised[name] = warning
		r.Recorder.Eventf(secret, corev1.EventTypeWarning, eventHasKey, "%s", warning)
	}
}

// sayFull records of which Secrets the keys cannot be kept because there is no room, and returns the others.
func (r *Reconciler) sayFull(namespace string, states []secretState, refused []string) (others []secretState) {
	for _, s := range states {
		name := client.ObjectKeyFromObject(s.secret)
		if !slices.Contains(refused, name.Name) {
			delete(r.full, name)
			others = append(others, s)
			continue
		}
		if r.isDue(r.full[name]) {
			r.full[name] = r.now()
			r.Recorder.Eventf(s.secret, corev1.EventTypeWarning, eventNotKept, "The key of this Secret cannot be kept, so that its %d hosts get no other one: Secret %s/%s has no room for it. "+
				"Let hosts of this namespace share Secrets, or use short keys: ssh-keygen -t ed25519 -N '' -f new-key", s.progress.total(), namespace, host.KeptSecret)
		}
		r.measure(name, &s.progress)
	}
	return others
}

// forget drops the metric of Secrets that no host has any more, and their keys.
func (r *Reconciler) forget(namespace string, names []types.NamespacedName) {
	r.Current.keep(namespace, names)
	var now []string
	for _, n := range names {
		now = append(now, n.Name)
	}
	for _, name := range r.measured[namespace] {
		if !slices.Contains(now, name) {
			r.measure(types.NamespacedName{Namespace: namespace, Name: name}, nil)
		}
	}
	if r.measured[namespace] = now; len(now) == 0 {
		delete(r.measured, namespace)
	}
}
