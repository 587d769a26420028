// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/install"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
}

// requestContext is the context of a request as the server makes it.
func requestContext(subresource string) context.Context {
	ctx := genericapirequest.WithNamespace(context.Background(), "default")
	return genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: v1alpha1.GroupName, APIVersion: "v1alpha1",
		Resource: "windowsinstances", Subresource: subresource, Namespace: "default",
	})
}

func validInstance() *windows.WindowsInstance {
	return &windows.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "win-1", Namespace: "default", Generation: 3, ResourceVersion: "7", UID: "u"},
		Spec:       windows.WindowsInstanceSpec{Address: "10.0.0.1", Port: 22, Username: "Administrator"},
	}
}

func goodBastion() *windows.Bastion {
	b := aBastion("jump")
	b.HostKeys = []string{testHostKey}
	return b
}

// TestDeclaredRules checks the rules that are declared on the type, as the server
// applies them to a new and to a changed object.
func TestDeclaredRules(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*windows.WindowsInstanceSpec)
		want   []string // reason and field of each cause
	}{
		{"as it should be", func(*windows.WindowsInstanceSpec) {}, nil},
		{"no address", func(s *windows.WindowsInstanceSpec) { s.Address = "" }, []string{"FieldValueRequired spec.address"}},
		{"long address", func(s *windows.WindowsInstanceSpec) { s.Address = strings.Repeat("abcdefghi.", 26) + "a" }, []string{"FieldValueInvalid spec.address", "FieldValueTooLong spec.address"}},
		{"port below", func(s *windows.WindowsInstanceSpec) { s.Port = -1 }, []string{"FieldValueInvalid spec.port"}},
		{"port above", func(s *windows.WindowsInstanceSpec) { s.Port = 65536 }, []string{"FieldValueInvalid spec.port"}},
		{"highest port", func(s *windows.WindowsInstanceSpec) { s.Port = 65535 }, nil},
		{"long user", func(s *windows.WindowsInstanceSpec) { s.Username = strings.Repeat("a", 105) }, []string{"FieldValueTooLong spec.username"}},
		{"many host keys", func(s *windows.WindowsInstanceSpec) {
			for range 17 {
				s.HostKeys = append(s.HostKeys, testHostKey)
			}
		}, []string{"FieldValueTooMany spec.hostKeys"}},
		{"host key behind comments", func(s *windows.WindowsInstanceSpec) { s.HostKeys = []string{strings.Repeat("#\n", 2048) + testHostKey} }, []string{"FieldValueTooLong spec.hostKeys[0]"}},
		{"credentials without a name", func(s *windows.WindowsInstanceSpec) { s.CredentialsSecretRef = &windows.SecretReference{} }, []string{"FieldValueRequired spec.credentialsSecretRef.name"}},
		{"bastion", func(s *windows.WindowsInstanceSpec) { s.Bastion = goodBastion() }, nil},
		{"bastion without anything", func(s *windows.WindowsInstanceSpec) { s.Bastion = &windows.Bastion{Port: 22} }, []string{
			"FieldValueRequired spec.bastion.address", "FieldValueRequired spec.bastion.credentialsSecretRef.name",
			"FieldValueRequired spec.bastion.hostKeys", "FieldValueRequired spec.bastion.username",
		}},
		{"bastion with a bad port", func(s *windows.WindowsInstanceSpec) { s.Bastion = goodBastion(); s.Bastion.Port = 65536 }, []string{"FieldValueInvalid spec.bastion.port"}},
		{"bastion with many host keys", func(s *windows.WindowsInstanceSpec) {
			s.Bastion = goodBastion()
			for range 16 {
				s.Bastion.HostKeys = append(s.Bastion.HostKeys, testHostKey)
			}
		}, []string{"FieldValueTooMany spec.bastion.hostKeys"}},
		{"bastion with a host key behind comments", func(s *windows.WindowsInstanceSpec) {
			s.Bastion = goodBastion()
			s.Bastion.HostKeys = []string{strings.Repeat("#\n", 2048) + testHostKey}
		}, []string{"FieldValueTooLong spec.bastion.hostKeys[0]"}},
		{"pool without a name", func(s *windows.WindowsInstanceSpec) { s.PoolRef = &windows.PoolReference{} }, []string{"FieldValueRequired spec.poolRef.name"}},
		{"long provider ID", func(s *windows.WindowsInstanceSpec) { s.ProviderID = strings.Repeat("a", 513) }, []string{"FieldValueTooLong spec.providerID"}},
		{"unknown removal policy", func(s *windows.WindowsInstanceSpec) { s.Removal = &windows.RemovalOptions{Policy: "Burn"} }, []string{"FieldValueNotSupported spec.removal.policy"}},
		{"removal after less than nothing", func(s *windows.WindowsInstanceSpec) {
			s.Removal = &windows.RemovalOptions{AfterSeconds: new(int64(-1))}
		}, []string{"FieldValueInvalid spec.removal.afterSeconds"}},
		{"removal at once", func(s *windows.WindowsInstanceSpec) { s.Removal = &windows.RemovalOptions{AfterSeconds: new(int64(0))} }, nil},
		{"removal after ten years", func(s *windows.WindowsInstanceSpec) {
			s.Removal = &windows.RemovalOptions{AfterSeconds: new(int64(315360000))}
		}, nil},
		{"removal later", func(s *windows.WindowsInstanceSpec) {
			s.Removal = &windows.RemovalOptions{AfterSeconds: new(int64(315360001))}
		}, []string{"FieldValueInvalid spec.removal.afterSeconds"}},
		{"default removal policy", func(s *windows.WindowsInstanceSpec) { s.Removal = &windows.RemovalOptions{} }, nil},
		{"written rules, too", func(s *windows.WindowsInstanceSpec) { s.Address, s.Port = "0.0.0.0", -1 }, []string{"FieldValueInvalid spec.address", "FieldValueInvalid spec.port"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			strategy := newStrategy(newScheme())
			instance := validInstance()
			test.change(&instance.Spec)

			created := instance.DeepCopy()
			created.ResourceVersion = ""
			rest.FillObjectMetaSystemFields(created)
			checkCauses(t, "create", test.want, rest.BeforeCreate(strategy, requestContext(""), created))

			checkCauses(t, "update", test.want, rest.BeforeUpdate(strategy, requestContext(""), instance, validInstance()))
		})
	}
}

// TestStatusRules checks that a status can be written, and what it is held to.
func TestStatusRules(t *testing.T) {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "NodeReady", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}
	for _, test := range []struct {
		name   string
		status windows.WindowsInstanceStatus
		want   []string
	}{
		{"good", windows.WindowsInstanceStatus{Phase: "Ready", Conditions: []metav1.Condition{ready}}, nil},
		{"a condition twice", windows.WindowsInstanceStatus{Conditions: []metav1.Condition{ready, ready}}, []string{"FieldValueDuplicate status.conditions[1]"}},
		{"a condition without its parts", windows.WindowsInstanceStatus{Conditions: []metav1.Condition{{Type: "Ready"}}}, []string{
			"FieldValueRequired status.conditions[0].lastTransitionTime", "FieldValueRequired status.conditions[0].reason", "FieldValueRequired status.conditions[0].status",
		}},
		{"the longest ID of a machine", windows.WindowsInstanceStatus{MachineID: strings.Repeat("a", 128)}, nil},
		{"an ID of a machine that is too long", windows.WindowsInstanceStatus{MachineID: strings.Repeat("a", 129)}, []string{"FieldValueTooLong status.machineID"}},
		{"an operation", windows.WindowsInstanceStatus{Operation: anOperation(func(o *windows.Operation) {
			o.Message, o.Steps[0].Message, o.BlockedBy[0].Message = strings.Repeat("a", v1alpha1.MaxOperationMessage), strings.Repeat("a", v1alpha1.MaxOperationMessage), strings.Repeat("a", v1alpha1.MaxOperationMessage)
		})}, nil},
		{"messages that are too long", windows.WindowsInstanceStatus{Operation: anOperation(func(o *windows.Operation) {
			long := strings.Repeat("a", v1alpha1.MaxOperationMessage+1)
			o.Message, o.Steps[0].Message, o.BlockedBy[0].Message = long, long, long
		})}, []string{"FieldValueTooLong status.operation.blockedBy[0].message", "FieldValueTooLong status.operation.message", "FieldValueTooLong status.operation.steps[0].message"}},
		{"words that nobody knows", windows.WindowsInstanceStatus{Phase: "Fine", Operation: anOperation(func(o *windows.Operation) {
			o.Type, o.Phase, o.Origin, o.Impact, o.Steps[0].State = "Dance", "Half", "Nowhere", "Some", "Odd"
		})}, []string{
			"FieldValueNotSupported status.operation.impact", "FieldValueNotSupported status.operation.origin", "FieldValueNotSupported status.operation.phase",
			"FieldValueNotSupported status.operation.steps[0].state", "FieldValueNotSupported status.operation.type", "FieldValueNotSupported status.phase",
		}},
		{"a step twice", windows.WindowsInstanceStatus{Operation: anOperation(func(o *windows.Operation) { o.Steps = append(o.Steps, o.Steps[0]) })}, []string{"FieldValueDuplicate status.operation.steps[1]"}},
		{"many pods", windows.WindowsInstanceStatus{Operation: anOperation(func(o *windows.Operation) { o.BlockedBy = make([]windows.BlockedPod, 17) })}, []string{"FieldValueTooMany status.operation.blockedBy"}},
		{"a drain without end", windows.WindowsInstanceStatus{Operation: anOperation(func(o *windows.Operation) { o.Drain = &windows.DrainOptions{TimeoutSeconds: new(int64(604801))} })}, []string{"FieldValueInvalid status.operation.drain.timeoutSeconds"}},
		{"a long history", windows.WindowsInstanceStatus{History: make([]windows.Operation, 11)}, []string{"FieldValueTooMany status.history"}},
		{"a host key that is none", windows.WindowsInstanceStatus{HostKeys: []windows.HostKeyStatus{{Type: "ssh-ed25519", Key: "AAAA", TrustedBy: "Spec"}}}, []string{"FieldValueInvalid status.hostKeys[0].key"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := validInstance()
			instance.Status = test.status
			checkCauses(t, "update", test.want, rest.BeforeUpdate(statusStrategy{newStrategy(newScheme())}, requestContext("status"), instance, validInstance()))
		})
	}
}

// anOperation is one that runs, with a change.
func anOperation(change func(*windows.Operation)) *windows.Operation {
	o := &windows.Operation{
		ID: "drain-1", Type: "Drain", Phase: "Running", RequestedBy: "jane", Origin: "User", Impact: "None",
		Steps:     []windows.OperationStep{{Name: "Drain", State: "Running"}},
		BlockedBy: []windows.BlockedPod{{Namespace: "a", Name: "b"}},
	}
	change(o)
	return o
}

// oldInstance is what an earlier release stored by rules that let more in.
func oldInstance() *windows.WindowsInstance {
	i := validInstance()
	i.Spec.Address, i.Spec.Username, i.Spec.NodeName = "224.0.0.1", "a:b", "WIN"
	i.Spec.HostKeys = []string{"ssh-rsa AAAA"}
	i.Spec.Removal = &windows.RemovalOptions{Policy: "Burn", AfterSeconds: new(int64(-1))}
	bad := func(o *windows.Operation) {
		o.Message, o.Drain = strings.Repeat("a", v1alpha1.MaxOperationMessage+1), &windows.DrainOptions{TimeoutSeconds: new(int64(1 << 40))}
	}
	i.Status = windows.WindowsInstanceStatus{
		Phase:      "Fine",
		Conditions: []metav1.Condition{{Type: "Ready", Status: "Maybe", Reason: "NodeReady", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}},
		HostKeys:   []windows.HostKeyStatus{{Type: "ssh-ed25519", Key: "AAAA", TrustedBy: "Spec"}},
		Operation:  anOperation(bad),
		History:    []windows.Operation{*anOperation(bad)},
	}
	return i
}

// TestOldValues: what earlier releases stored does not keep anybody from changing something
// else, and is refused as soon as it is changed itself.
func TestOldValues(t *testing.T) {
	for _, test := range []struct {
		name   string
		status bool
		change func(*windows.WindowsInstance)
		want   []string
	}{
		{"paused", false, func(i *windows.WindowsInstance) { i.Spec.Paused = true }, nil},
		{"the address is fixed", false, func(i *windows.WindowsInstance) { i.Spec.Address = "10.0.0.1" }, nil},
		{"another bad address", false, func(i *windows.WindowsInstance) { i.Spec.Address = "::" }, []string{"FieldValueInvalid spec.address"}},
		{"another bad user", false, func(i *windows.WindowsInstance) { i.Spec.Username = "a;b" }, []string{"FieldValueInvalid spec.username"}},
		{"a bad key more", false, func(i *windows.WindowsInstance) { i.Spec.HostKeys = append(i.Spec.HostKeys, "x") }, []string{"FieldValueInvalid spec.hostKeys[1]"}},
		{"another bad policy", false, func(i *windows.WindowsInstance) { i.Spec.Removal.Policy = "Bury" }, []string{"FieldValueNotSupported spec.removal.policy"}},
		{"the other half of removal", false, func(i *windows.WindowsInstance) { i.Spec.Removal.AfterSeconds = new(int64(5)) }, nil},
		{"version", true, func(i *windows.WindowsInstance) { i.Status.Version = "1" }, nil},
		{"the operation goes on", true, func(i *windows.WindowsInstance) { i.Status.Operation.CancelRequestedBy = "jane" }, nil},
		{"the operation becomes history", true, func(i *windows.WindowsInstance) {
			i.Status.History = append([]windows.Operation{*i.Status.Operation}, i.Status.History...)
			i.Status.Operation = anOperation(func(o *windows.Operation) { o.ID = "drain-2" })
		}, nil},
		{"a good condition more", true, func(i *windows.WindowsInstance) {
			i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: "Removed", Status: "False", Reason: "Removing", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))})
		}, nil},
		{"another bad condition", true, func(i *windows.WindowsInstance) { i.Status.Conditions[0].Status = "Perhaps" }, []string{"FieldValueNotSupported status.conditions[0].status"}},
		{"another bad host key", true, func(i *windows.WindowsInstance) { i.Status.HostKeys[0].Key = "BBBB" }, []string{"FieldValueInvalid status.hostKeys[0].key"}},
		{"another long message", true, func(i *windows.WindowsInstance) { i.Status.Operation.Message += "b" }, []string{"FieldValueTooLong status.operation.message"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance, strategy := oldInstance(), newStrategy(newScheme())
			test.change(instance)
			if test.status {
				checkCauses(t, "status", test.want, rest.BeforeUpdate(statusStrategy{strategy}, requestContext("status"), instance, oldInstance()))
				return
			}
			checkCauses(t, "update", test.want, rest.BeforeUpdate(strategy, requestContext(""), instance, oldInstance()))
		})
	}
}

// checkCauses compares the causes of a Status.
func checkCauses(t *testing.T, what string, want []string, err error) {
	t.Helper()
	var got []string
	if err != nil {
		var status apierrors.APIStatus
		if !asStatus(err, &status) {
			t.Fatalf("%s: got %v, which is no Status", what, err)
		}
		if code := status.Status().Code; code != 422 {
			t.Errorf("%s: the code is %d", what, code)
		}
		for _, cause := range status.Status().Details.Causes {
			got = append(got, fmt.Sprintf("%s %s", cause.Type, cause.Field))
		}
	}
	if diff := cmp.Diff(want, got, sortStrings); diff != "" {
		t.Errorf("%s: causes differ (-want +got):\n%s\n%v", what, diff, err)
	}
}

func TestPrepareForCreate(t *testing.T) {
	instance := validInstance()
	instance.Status.Phase = "Ready"
	newStrategy(newScheme()).PrepareForCreate(t.Context(), instance)
	if instance.Generation != 1 || instance.Status.Phase != "" {
		t.Errorf("got generation %d, phase %q; want 1 and none", instance.Generation, instance.Status.Phase)
	}
}

// An instance is made with the host keys that the one before it trusted, in one request.
func TestCreateWithHostKeys(t *testing.T) {
	keys := []v1alpha1.HostKeyStatus{{Type: "ssh-ed25519", Fingerprint: "SHA256:x", Key: keyOfHost, FirstSeen: metav1.Unix(1, 0), TrustedBy: v1alpha1.TrustedOnFirstUse}}
	var given v1alpha1.WindowsInstance
	if err := given.GiveHostKeys(keys); err != nil {
		t.Fatal(err)
	}
	many, _ := json.Marshal(slices.Repeat(keys, 17))
	for _, tt := range []struct {
		name, annotation, want string
	}{
		{"given", given.Annotations[v1alpha1.HostKeysAnnotation], ""},
		{"no JSON", "ssh-ed25519 " + keyOfHost, "reading host keys"},
		{"no key", `[{"type": "ssh-ed25519"}]`, "is empty"},
		{"too many", string(many), "at most 16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instance := newInstance()
			instance.Annotations = map[string]string{v1alpha1.HostKeysAnnotation: tt.annotation, "other": "1"}
			strategy := newStrategy(newScheme())
			strategy.PrepareForCreate(t.Context(), instance)
			err := strategy.Validate(t.Context(), instance).ToAggregate()
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || len(instance.Status.HostKeys) > 0 {
					t.Errorf("got %v", err)
				}
				return
			}
			served, convertErr := served(instance)
			if err != nil || convertErr != nil || len(instance.Annotations) != 1 {
				t.Fatalf("%v, %v, annotations %v", err, convertErr, instance.Annotations)
			}
			if diff := cmp.Diff(keys, served.Status.HostKeys); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Users do not say which keys a host has proven: it would stand for another one.
func TestCreateWithHostKeysOfAUser(t *testing.T) {
	for name, allowed := range map[string]bool{"jane": false, "controller": true} {
		instance := newInstance()
		instance.Status.HostKeys = []windows.HostKeyStatus{{Type: "ssh-ed25519", Key: keyOfHost}} // as taken from the annotation
		ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: name})
		err := keyGuard{deleters: base.Deleters{Controllers: []string{"controller"}}}.checkCreate(ctx, instance)
		if allowed != (err == nil) || err != nil && !strings.Contains(err.Error(), "name the keys that you trust in spec.hostKeys") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrepareForUpdate(t *testing.T) {
	now := metav1.Now()
	for _, test := range []struct {
		name           string
		change         func(*windows.WindowsInstance)
		status         bool // through the subresource status
		wantGeneration int64
		wantUnchanged  bool // the object is as it was before
	}{
		{"spec", func(i *windows.WindowsInstance) { i.Spec.Paused = true }, false, 4, false},
		{"labels", func(i *windows.WindowsInstance) { i.Labels = map[string]string{"a": "b"} }, false, 3, false},
		{"deletion begins", func(i *windows.WindowsInstance) { i.DeletionTimestamp = &now }, false, 4, false},
		{"status", func(i *windows.WindowsInstance) { i.Status.Phase = "Ready" }, false, 3, true},
		{"status, through status", func(i *windows.WindowsInstance) { i.Status.Phase = "Ready" }, true, 3, false},
		{"spec, through status", func(i *windows.WindowsInstance) { i.Spec.Paused = true }, true, 3, true},
		{"metadata, through status", func(i *windows.WindowsInstance) {
			i.Labels = map[string]string{"a": "b"}
			i.Annotations = map[string]string{"a": "b"}
			i.Finalizers = []string{"example.com/a"}
			i.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "1"}}
		}, true, 3, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := validInstance()
			instance := validInstance()
			test.change(instance)
			strategy := newStrategy(newScheme())
			if test.status {
				statusStrategy{strategy}.PrepareForUpdate(t.Context(), instance, old)
			} else {
				strategy.PrepareForUpdate(t.Context(), instance, old)
			}
			if instance.Generation != test.wantGeneration {
				t.Errorf("the generation is %d, want %d", instance.Generation, test.wantGeneration)
			}
			if diff := cmp.Diff(old, instance); (diff == "") != test.wantUnchanged {
				t.Errorf("changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestGenerationOfADeletedInstance(t *testing.T) {
	now := metav1.Now()
	old := validInstance()
	old.DeletionTimestamp = &now
	instance := old.DeepCopy()
	instance.Finalizers = nil
	newStrategy(newScheme()).PrepareForUpdate(t.Context(), instance, old)
	if instance.Generation != 3 {
		t.Errorf("the generation is %d: removing a finalizer is no change of the spec", instance.Generation)
	}
}

func TestStrategyFlags(t *testing.T) {
	strategy := newStrategy(newScheme())
	if !strategy.NamespaceScoped() {
		t.Error("instances must have a namespace")
	}
	if strategy.AllowCreateOnUpdate(t.Context()) {
		t.Error("an update must not create")
	}
	if strategy.AllowUnconditionalUpdate(t.Context()) {
		t.Error("an update without resourceVersion must be refused")
	}
}

func TestResetFields(t *testing.T) {
	served := fieldpath.APIVersion("windows.openshift.io/v1alpha1")
	strategy := newStrategy(newScheme())
	for _, test := range []struct {
		name   string
		fields map[fieldpath.APIVersion]*fieldpath.Set
		path   []any
		want   bool
	}{
		{"main: status", strategy.GetResetFields(), []any{"status"}, true},
		{"main: spec", strategy.GetResetFields(), []any{"spec"}, false},
		{"main: labels", strategy.GetResetFields(), []any{"metadata", "labels"}, false},
		{"status: status", statusStrategy{strategy}.GetResetFields(), []any{"status"}, false},
		{"status: spec", statusStrategy{strategy}.GetResetFields(), []any{"spec"}, true},
		{"status: labels", statusStrategy{strategy}.GetResetFields(), []any{"metadata", "labels"}, true},
		{"status: annotations", statusStrategy{strategy}.GetResetFields(), []any{"metadata", "annotations"}, true},
		{"status: finalizers", statusStrategy{strategy}.GetResetFields(), []any{"metadata", "finalizers"}, true},
		{"status: owners", statusStrategy{strategy}.GetResetFields(), []any{"metadata", "ownerReferences"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.fields[served].Has(fieldpath.MakePathOrDie(test.path...)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestSelectableFields proves that every field label that the served version
// accepts is one that objects are selected by.
func TestSelectableFields(t *testing.T) {
	instance := validInstance()
	instance.Spec.PoolRef = &windows.PoolReference{Name: "p"}
	instance.Status = windows.WindowsInstanceStatus{Phase: "Ready", Node: &windows.NodeReference{Name: "n"}}
	want := fields.Set{
		"metadata.name": "win-1", "metadata.namespace": "default", "spec.address": "10.0.0.1",
		"spec.poolRef.name": "p", "status.node.name": "n", "status.phase": "Ready",
	}
	if diff := cmp.Diff(want, selectableFields(instance)); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
	scheme := newScheme()
	for label, value := range want {
		if _, _, err := scheme.ConvertFieldLabel(v1alpha1.SchemeGroupVersion.WithKind("WindowsInstance"), label, value); err != nil {
			t.Errorf("%s is not accepted: %v", label, err)
		}
		// The same as the store makes of getAttrs.
		predicate := storage.SelectionPredicate{Label: labels.Everything(), Field: fields.OneTermEqualSelector(label, value), GetAttrs: getAttrs}
		if ok, err := predicate.Matches(instance); !ok || err != nil {
			t.Errorf("%s=%s selects: %v, %v", label, value, ok, err)
		}
		predicate.Field = fields.OneTermEqualSelector(label, "other")
		if ok, err := predicate.Matches(instance); ok || err != nil {
			t.Errorf("%s=other selects: %v, %v", label, ok, err)
		}
	}
	if _, _, err := getAttrs(&windows.WindowsNodePool{}); err == nil {
		t.Error("a pool was taken for an instance")
	}
}
