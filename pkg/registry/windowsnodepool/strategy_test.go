// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/install"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func testStrategy() poolStrategy {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return newStrategy(scheme)
}

// requestContext is the context of a request as the server makes it.
func requestContext(subresource string) context.Context {
	ctx := genericapirequest.WithNamespace(context.Background(), "default")
	return genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: v1alpha1.GroupName, APIVersion: "v1alpha1",
		Resource: "windowsnodepools", Subresource: subresource, Namespace: "default",
	})
}

func validPool() *windows.WindowsNodePool {
	return &windows.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Generation: 3, ResourceVersion: "7", UID: "u"},
		Spec:       windows.WindowsNodePoolSpec{Source: windows.PoolSource{MachineSet: &windows.SourceReference{Name: "winworker"}}},
	}
}

// causes lists type and field of what a Status complains about.
func causes(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != 422 {
		t.Fatalf("got %v, want a Status with code 422", err)
	}
	var got []string
	for _, cause := range status.Status().Details.Causes {
		got = append(got, string(cause.Type)+" "+cause.Field)
	}
	slices.Sort(got)
	return got
}

func withTemplate(template windows.PoolTemplate) windows.WindowsNodePoolSpec {
	return windows.WindowsNodePoolSpec{Source: validPool().Spec.Source, Template: template}
}

func withTaints(taints ...windows.NodeTaint) windows.WindowsNodePoolSpec {
	return withTemplate(windows.PoolTemplate{NodeTaints: taints})
}

func withTaint(key string, effect windows.NodeTaintEffect) windows.WindowsNodePoolSpec {
	return withTaints(windows.NodeTaint{Key: key, Effect: effect})
}

func withLogAge(seconds int64) windows.WindowsNodePoolSpec {
	return withTemplate(windows.PoolTemplate{LogRotation: &windows.LogRotationTemplate{MaxAgeSeconds: &seconds}})
}

// numbered is a map with n entries.
func numbered(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("example.com/label-%d", i)] = ""
	}
	return all
}

func withDrain(o windows.PoolDrainOptions) windows.WindowsNodePoolSpec {
	return windows.WindowsNodePoolSpec{Source: validPool().Spec.Source, UpdateStrategy: windows.PoolUpdateStrategy{Drain: o}}
}

func withStrategy(edit func(*windows.PoolUpdateStrategy)) windows.WindowsNodePoolSpec {
	spec := windows.WindowsNodePoolSpec{Source: validPool().Spec.Source}
	edit(&spec.UpdateStrategy)
	return spec
}

func withMaxUnavailable(n intstr.IntOrString) windows.WindowsNodePoolSpec {
	return withStrategy(func(s *windows.PoolUpdateStrategy) { s.RollingUpdate.MaxUnavailable = &n })
}

func withWindow(w windows.MaintenanceWindow) windows.WindowsNodePoolSpec {
	return withStrategy(func(s *windows.PoolUpdateStrategy) { s.Window = &w })
}

// removals are those of n hosts.
func removals(n int) []windows.PoolRemoval {
	var all []windows.PoolRemoval
	for i := range n {
		all = append(all, windows.PoolRemoval{Name: fmt.Sprintf("win-%d", i), Time: metav1.NewTime(time.Unix(1, 0))})
	}
	return all
}

func TestRulesOfANewPool(t *testing.T) {
	for _, test := range []struct {
		name string
		spec windows.WindowsNodePoolSpec
		want []string
	}{
		{"MachineSet", validPool().Spec, nil},
		{"Instances", windows.WindowsNodePoolSpec{Source: windows.PoolSource{Instances: &windows.InstancesSource{}}}, nil},
		{"no source", windows.WindowsNodePoolSpec{}, []string{"FieldValueInvalid spec.source"}},
		{"resumed next year", withStrategy(func(s *windows.PoolUpdateStrategy) {
			s.RollingUpdate.ResumedAt = new(metav1.NewTime(time.Now().AddDate(1, 0, 0)))
		}), []string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.resumedAt"}},
		{"two sources", windows.WindowsNodePoolSpec{Source: windows.PoolSource{Instances: &windows.InstancesSource{}, ConfigMap: &windows.SourceReference{Name: "x"}}}, []string{"FieldValueInvalid spec.source"}},
		{"source without a name", windows.WindowsNodePoolSpec{Source: windows.PoolSource{ConfigMap: &windows.SourceReference{}}}, []string{"FieldValueRequired spec.source.configMap.name"}},
		{"bad name", windows.WindowsNodePoolSpec{Source: windows.PoolSource{MachineSet: &windows.SourceReference{Name: "A"}}}, []string{"FieldValueInvalid spec.source.machineSet.name"}},
		{"Secret without a name", windows.WindowsNodePoolSpec{Source: validPool().Spec.Source, Template: windows.PoolTemplate{CredentialsSecretRef: &windows.SecretReference{}}}, []string{"FieldValueRequired spec.template.credentialsSecretRef.name"}},
		{"taint", withTaint("a", "PreferNoSchedule"), nil},
		{"taint that evicts the pods of all hosts", withTaint("a", "NoExecute"), []string{"FieldValueForbidden spec.template.nodeTaints[0].effect"}},
		{"taints with one key", withTaints(windows.NodeTaint{Key: "os", Value: "1", Effect: "NoSchedule"}, windows.NodeTaint{Key: "os", Value: "2", Effect: "PreferNoSchedule"}), nil},
		{"a taint twice", withTaints(windows.NodeTaint{Key: "a", Value: "1", Effect: "NoSchedule"}, windows.NodeTaint{Key: "a", Value: "2", Effect: "NoSchedule"}), []string{"FieldValueDuplicate spec.template.nodeTaints[1]"}},
		{"many taints", withTaints(make([]windows.NodeTaint, 33)...), []string{"FieldValueTooMany spec.template.nodeTaints"}},
		{"many labels", withTemplate(windows.PoolTemplate{NodeLabels: numbered(65)}), []string{"FieldValueTooMany spec.template.nodeLabels"}},
		{"as many labels as there may be", withTemplate(windows.PoolTemplate{NodeLabels: numbered(64)}), nil},
		{"a long threshold", withTemplate(windows.PoolTemplate{Kubelet: &windows.KubeletTemplate{EvictionHard: map[string]string{"nodefs.available": strings.Repeat("1", 65) + "%"}}}), []string{
			"FieldValueInvalid spec.template.kubelet.evictionHard[nodefs.available]", "FieldValueTooLong spec.template.kubelet.evictionHard[nodefs.available]",
		}},
		{"logs of a negative age", withLogAge(-1), []string{"FieldValueInvalid spec.template.logRotation.maxAgeSeconds"}},
		{"logs are kept for ten years", withLogAge(315360000), nil},
		{"and not longer", withLogAge(315360001), []string{"FieldValueInvalid spec.template.logRotation.maxAgeSeconds"}},
		{"taint without effect", withTaint("a", ""), []string{"FieldValueRequired spec.template.nodeTaints[0].effect"}},
		{"taint with another effect", withTaint("a", "Never"), []string{"FieldValueNotSupported spec.template.nodeTaints[0].effect"}},
		{"taint without key", withTaint("", "NoSchedule"), []string{"FieldValueRequired spec.template.nodeTaints[0].key"}},
		{"unknown log level", windows.WindowsNodePoolSpec{Source: validPool().Spec.Source, Template: windows.PoolTemplate{Containerd: &windows.ContainerdTemplate{LogLevel: "loud"}}}, []string{"FieldValueNotSupported spec.template.containerd.logLevel"}},
		{"another way to update", withStrategy(func(s *windows.PoolUpdateStrategy) { s.Type = "Recreate" }), []string{"FieldValueNotSupported spec.updateStrategy.type"}},
		{"on request", withStrategy(func(s *windows.PoolUpdateStrategy) { s.Type = "OnRequest" }), nil},
		{"as many hosts as there are", withMaxUnavailable(intstr.FromString("100%")), nil},
		{"more hosts than there are", withMaxUnavailable(intstr.FromString("101%")), []string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		{"no host", withMaxUnavailable(intstr.FromInt32(0)), []string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		{"no percentage", withMaxUnavailable(intstr.FromString("0%")), []string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		{"fewer than no host", withMaxUnavailable(intstr.FromInt32(-1)), []string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		{"a few", withMaxUnavailable(intstr.FromString("a few")), []string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		{"no canary", withStrategy(func(s *windows.PoolUpdateStrategy) { s.RollingUpdate.Canary = new(intstr.FromInt32(0)) }), nil},
		{"half a canary", withStrategy(func(s *windows.PoolUpdateStrategy) { s.RollingUpdate.Canary = new(intstr.FromString("0.5")) }), []string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.canary"}},
		{"fewer failures than none", withStrategy(func(s *windows.PoolUpdateStrategy) { s.RollingUpdate.MaxFailures = new(int32(-1)) }), []string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.maxFailures"}},
		{"window", withWindow(windows.MaintenanceWindow{Schedule: "0 2 * * SAT", DurationSeconds: 14400, TimeZone: "Europe/Berlin"}), nil},
		{"window without a time", withWindow(windows.MaintenanceWindow{DurationSeconds: 60}), []string{"FieldValueRequired spec.updateStrategy.window.schedule"}},
		{"window that never opens", withWindow(windows.MaintenanceWindow{Schedule: "0 2 30 2 *", DurationSeconds: 60}), []string{"FieldValueInvalid spec.updateStrategy.window.schedule"}},
		{"window of a second", withWindow(windows.MaintenanceWindow{Schedule: "@daily", DurationSeconds: 1}), []string{"FieldValueInvalid spec.updateStrategy.window.durationSeconds"}},
		{"window of nowhere", withWindow(windows.MaintenanceWindow{Schedule: "@daily", DurationSeconds: 60, TimeZone: "Mars"}), []string{"FieldValueInvalid spec.updateStrategy.window.timeZone"}},
		{"drain of the controller", withDrain(windows.PoolDrainOptions{GracePeriodSeconds: new(int64(0)), TimeoutSeconds: new(int64(604800)), SkipWaitForDeleteTimeoutSeconds: new(int32(60))}), nil},
		{"drain: below", withDrain(windows.PoolDrainOptions{GracePeriodSeconds: new(int64(-1)), TimeoutSeconds: new(int64(-1)), SkipWaitForDeleteTimeoutSeconds: new(int32(-1))}), []string{
			"FieldValueInvalid spec.updateStrategy.drain.gracePeriodSeconds", "FieldValueInvalid spec.updateStrategy.drain.skipWaitForDeleteTimeoutSeconds", "FieldValueInvalid spec.updateStrategy.drain.timeoutSeconds",
		}},
		{"drain: above", withDrain(windows.PoolDrainOptions{GracePeriodSeconds: new(int64(604801)), TimeoutSeconds: new(int64(604801)), SkipWaitForDeleteTimeoutSeconds: new(int32(604801))}), []string{
			"FieldValueInvalid spec.updateStrategy.drain.gracePeriodSeconds", "FieldValueInvalid spec.updateStrategy.drain.skipWaitForDeleteTimeoutSeconds", "FieldValueInvalid spec.updateStrategy.drain.timeoutSeconds",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := validPool()
			pool.ResourceVersion, pool.Spec = "", test.spec
			rest.FillObjectMetaSystemFields(pool)
			if diff := cmp.Diff(test.want, causes(t, rest.BeforeCreate(testStrategy(), requestContext(""), pool))); diff != "" {
				t.Errorf("causes differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRulesOfAChangedPool(t *testing.T) {
	bad := metav1.Condition{Type: "Degraded", Status: "Maybe", Reason: "X", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}
	for _, test := range []struct {
		name   string
		status bool
		change func(*windows.WindowsNodePool)
		want   []string
	}{
		{"paused", false, func(p *windows.WindowsNodePool) { p.Spec.Paused = true }, nil},
		{"another MachineSet", false, func(p *windows.WindowsNodePool) { p.Spec.Source.MachineSet = &windows.SourceReference{Name: "x"} }, []string{"FieldValueInvalid spec.source"}},
		{"another source", false, func(p *windows.WindowsNodePool) {
			p.Spec.Source = windows.PoolSource{Instances: &windows.InstancesSource{}}
		}, []string{"FieldValueInvalid spec.source"}},
		{"source removed", false, func(p *windows.WindowsNodePool) { p.Spec.Source = windows.PoolSource{} }, []string{"FieldValueInvalid spec.source"}},
		{"resumed by a clock that is ahead", false, func(p *windows.WindowsNodePool) {
			p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(metav1.NewTime(time.Now().Add(time.Minute)))
		}, nil},
		{"resumed next year", false, func(p *windows.WindowsNodePool) {
			p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(metav1.NewTime(time.Now().AddDate(1, 0, 0)))
		}, []string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.resumedAt"}},
		{"counts", true, func(p *windows.WindowsNodePool) { p.Status.ReadyReplicas = 3 }, nil},
		{"source through status is ignored", true, func(p *windows.WindowsNodePool) { p.Spec.Source = windows.PoolSource{} }, nil},
		{"removals", true, func(p *windows.WindowsNodePool) { p.Status.RecentRemovals = removals(1024) }, nil},
		{"too many removals", true, func(p *windows.WindowsNodePool) { p.Status.RecentRemovals = removals(1025) }, []string{"FieldValueTooMany status.recentRemovals"}},
		{"removal of nothing", true, func(p *windows.WindowsNodePool) { p.Status.RecentRemovals = []windows.PoolRemoval{{}} }, []string{"FieldValueRequired status.recentRemovals[0].name"}},
		{"an unknown phase", true, func(p *windows.WindowsNodePool) { p.Status.Phase = "Fine" }, []string{"FieldValueNotSupported status.phase"}},
		{"bad condition", true, func(p *windows.WindowsNodePool) { p.Status.Conditions = []metav1.Condition{bad} }, []string{"FieldValueNotSupported status.conditions[0].status"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := validPool()
			test.change(pool)
			var err error
			if test.status {
				err = rest.BeforeUpdate(statusStrategy{testStrategy()}, requestContext("status"), pool, validPool())
			} else {
				err = rest.BeforeUpdate(testStrategy(), requestContext(""), pool, validPool())
			}
			if diff := cmp.Diff(test.want, causes(t, err)); diff != "" {
				t.Errorf("causes differ (-want +got):\n%s", diff)
			}
		})
	}
}

// oldPool is what an earlier release stored by rules that let more in.
func oldPool() *windows.WindowsNodePool {
	pool := validPool()
	pool.Spec.Source.MachineSet.Name = "A"
	pool.Spec.Template = windows.PoolTemplate{
		NodeLabels:  map[string]string{"kubernetes.io/os": "windows"},
		NodeTaints:  []windows.NodeTaint{{Key: "a b", Effect: "Never"}, {Key: "a b", Effect: "Never"}},
		Kubelet:     &windows.KubeletTemplate{EvictionHard: map[string]string{"pid.available": "some"}, MaxPods: new(int32(0))},
		Containerd:  &windows.ContainerdTemplate{LogLevel: "loud", SandboxImage: "a b"},
		LogRotation: &windows.LogRotationTemplate{MaxAgeSeconds: new(int64(-1))},
	}
	pool.Status = windows.WindowsNodePoolStatus{
		Phase:      "Fine",
		Conditions: []metav1.Condition{{Type: "Degraded", Status: "Maybe", Reason: "X", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}},
	}
	return pool
}

// TestOldValues: what earlier releases stored does not keep anybody from changing something
// else, and is refused as soon as it is changed itself.
func TestOldValues(t *testing.T) {
	for _, test := range []struct {
		name   string
		status bool
		change func(*windows.WindowsNodePool)
		want   []string
	}{
		{"paused", false, func(p *windows.WindowsNodePool) { p.Spec.Paused = true }, nil},
		{"the log level is fixed", false, func(p *windows.WindowsNodePool) { p.Spec.Template.Containerd.LogLevel = "info" }, nil},
		{"another bad log level", false, func(p *windows.WindowsNodePool) { p.Spec.Template.Containerd.LogLevel = "quiet" }, []string{"FieldValueNotSupported spec.template.containerd.logLevel"}},
		{"a good label more", false, func(p *windows.WindowsNodePool) { p.Spec.Template.NodeLabels["a"] = "b" }, nil},
		{"a bad label more", false, func(p *windows.WindowsNodePool) { p.Spec.Template.NodeLabels["kubernetes.io/arch"] = "b" }, []string{"FieldValueForbidden spec.template.nodeLabels[kubernetes.io/arch]"}},
		{"another bad threshold", false, func(p *windows.WindowsNodePool) { p.Spec.Template.Kubelet.EvictionHard["pid.available"] = "any" }, []string{"FieldValueInvalid spec.template.kubelet.evictionHard[pid.available]"}},
		{"replicas", true, func(p *windows.WindowsNodePool) { p.Status.Replicas = 1 }, nil},
		{"another bad condition", true, func(p *windows.WindowsNodePool) { p.Status.Conditions[0].Status = "Perhaps" }, []string{"FieldValueNotSupported status.conditions[0].status"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool, strategy := oldPool(), testStrategy()
			test.change(pool)
			var err error
			if test.status {
				err = rest.BeforeUpdate(statusStrategy{strategy}, requestContext("status"), pool, oldPool())
			} else {
				err = rest.BeforeUpdate(strategy, requestContext(""), pool, oldPool())
			}
			if diff := cmp.Diff(test.want, causes(t, err)); diff != "" {
				t.Errorf("causes differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrepare(t *testing.T) {
	created := validPool()
	created.Status.ReadyReplicas = 3
	testStrategy().PrepareForCreate(t.Context(), created)
	if created.Generation != 1 || created.Status.ReadyReplicas != 0 {
		t.Errorf("created: %+v", created)
	}
	now := metav1.Now()
	for _, test := range []struct {
		name           string
		status         bool
		change         func(*windows.WindowsNodePool)
		wantGeneration int64
		wantUnchanged  bool
	}{
		{"spec", false, func(p *windows.WindowsNodePool) { p.Spec.Paused = true }, 4, false},
		{"no taints in place of the default one", false, func(p *windows.WindowsNodePool) { p.Spec.Template.NodeTaints = []windows.NodeTaint{} }, 4, false},
		{"labels", false, func(p *windows.WindowsNodePool) { p.Labels = map[string]string{"a": "b"} }, 3, false},
		{"deletion begins", false, func(p *windows.WindowsNodePool) { p.DeletionTimestamp = &now }, 4, false},
		{"status", false, func(p *windows.WindowsNodePool) { p.Status.Replicas = 1 }, 3, true},
		{"status, through status", true, func(p *windows.WindowsNodePool) { p.Status.Replicas = 1 }, 3, false},
		{"everything else, through status", true, func(p *windows.WindowsNodePool) {
			p.Spec.Paused = true
			p.Labels, p.Annotations, p.Finalizers = map[string]string{"a": "b"}, map[string]string{"a": "b"}, []string{"example.com/a"}
			p.OwnerReferences = []metav1.OwnerReference{{Name: "a"}}
		}, 3, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := validPool()
			test.change(pool)
			if test.status {
				statusStrategy{testStrategy()}.PrepareForUpdate(t.Context(), pool, validPool())
			} else {
				testStrategy().PrepareForUpdate(t.Context(), pool, validPool())
			}
			if pool.Generation != test.wantGeneration {
				t.Errorf("the generation is %d, want %d", pool.Generation, test.wantGeneration)
			}
			if diff := cmp.Diff(validPool(), pool); (diff == "") != test.wantUnchanged {
				t.Errorf("changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestResetFields(t *testing.T) {
	const served = fieldpath.APIVersion("windows.openshift.io/v1alpha1")
	main, status := testStrategy().GetResetFields()[served], statusStrategy{testStrategy()}.GetResetFields()[served]
	if !main.Has(fieldpath.MakePathOrDie("status")) || main.Has(fieldpath.MakePathOrDie("spec")) {
		t.Errorf("main: %v", main)
	}
	if status.Has(fieldpath.MakePathOrDie("status")) || !status.Has(fieldpath.MakePathOrDie("spec")) || !status.Has(fieldpath.MakePathOrDie("metadata", "labels")) {
		t.Errorf("status: %v", status)
	}
}

func TestTable(t *testing.T) {
	for _, test := range []struct {
		name string
		pool windows.WindowsNodePool
		want []any // without the age
	}{
		{"new", windows.WindowsNodePool{Spec: validPool().Spec}, []any{"p", "MachineSet/winworker", int64(0), int64(0), int64(0), int64(0), "Pending"}},
		{"counted", windows.WindowsNodePool{
			Spec:   windows.WindowsNodePoolSpec{Source: windows.PoolSource{ConfigMap: &windows.SourceReference{Name: "windows-instances"}}},
			Status: windows.WindowsNodePoolStatus{Phase: "Progressing", DesiredReplicas: 4, Replicas: 4, ReadyReplicas: 3, UpdatedReplicas: 2, UnavailableReplicas: 1},
		}, []any{"p", "ConfigMap/windows-instances", int64(4), int64(3), int64(2), int64(1), "Progressing"}},
		{"by hand", windows.WindowsNodePool{Spec: windows.WindowsNodePoolSpec{Source: windows.PoolSource{Instances: &windows.InstancesSource{}}}}, []any{"p", "Instances", int64(0), int64(0), int64(0), int64(0), "Pending"}},
		{"without a source", windows.WindowsNodePool{}, []any{"p", "<none>", int64(0), int64(0), int64(0), int64(0), "Pending"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.pool.Name = "p"
			table, err := tableConvertor{}.ConvertToTable(t.Context(), &windows.WindowsNodePoolList{Items: []windows.WindowsNodePool{test.pool}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
				t.Fatalf("got rows %v for columns %v", table.Rows, table.ColumnDefinitions)
			}
			cells := table.Rows[0].Cells
			if diff := cmp.Diff(test.want, cells[:len(cells)-1]); diff != "" {
				t.Errorf("cells differ (-want +got):\n%s", diff)
			}
		})
	}
	var header []string
	for _, c := range columns {
		header = append(header, strings.TrimSpace(c.Name+" "+c.Type+" "+c.Format))
	}
	if diff := cmp.Diff([]string{"Name string name", "Source string", "Desired integer", "Ready integer", "Updated integer", "Unavailable integer", "Phase string", "Age string"}, header); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if _, err := (tableConvertor{}).ConvertToTable(t.Context(), &windows.WindowsInstance{}, nil); err == nil {
		t.Error("an instance was taken for a pool")
	}
}
