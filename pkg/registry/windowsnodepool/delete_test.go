// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

func TestDeleteGuard(t *testing.T) {
	const (
		controller = "system:serviceaccount:ns:windows-controller"
		gc         = "system:serviceaccount:kube-system:generic-garbage-collector"
		namespaces = "system:serviceaccount:kube-system:namespace-controller"
		manager    = "system:kube-controller-manager"
	)
	fromConfigMap := windows.PoolSource{ConfigMap: &windows.SourceReference{Name: "windows-instances"}}
	fromMachines := windows.PoolSource{MachineSet: &windows.SourceReference{Name: "winworker"}}
	byHand := windows.PoolSource{Instances: &windows.InstancesSource{}}
	now := metav1.Now()
	for _, test := range []struct {
		name       string
		user       string
		source     windows.PoolSource
		annotation string
		members    []string
		deleted    *metav1.Time
		ending     bool     // the namespace is being deleted
		want       []string // parts of the message; nil: may delete
	}{
		{"a person, empty, by hand", "jane", byHand, "", nil, nil, false, nil},
		{"a person, with hosts, by hand", "jane", byHand, "", []string{"a", "b"}, nil, false, []string{"2 instances, a, b", "spec.poolRef"}},
		{"a person, with hosts of entries", "system:admin", fromConfigMap, "ConfigMap ns/windows-instances", []string{"a"}, nil, false, []string{"instance a", "entries from ConfigMap windows-instances"}},
		{"a person, with many hosts of Machines", "jane", fromMachines, "MachineSet ns/winworker", []string{"a", "b", "c", "d", "e", "f", "g"}, nil, false, []string{"7 instances, a, b, c, d, e and 2 more", "MachineSet winworker"}},
		{"a person, the source has no hosts", "jane", fromConfigMap, "ConfigMap ns/windows-instances", nil, nil, false, []string{"ConfigMap ns/windows-instances", v1alpha1.SourceAnnotation}},
		{"a person, being deleted already", "jane", fromConfigMap, "ConfigMap ns/windows-instances", []string{"a"}, &now, false, nil},
		{"a person, the namespace goes", "jane", byHand, "", []string{"a"}, nil, true, []string{"instance a"}},
		{"nobody", "", byHand, "", []string{"a"}, nil, false, []string{"instance a"}},
		{"the controller, empty", controller, fromConfigMap, "ConfigMap ns/windows-instances", nil, nil, false, nil},
		{"the controller, with hosts", controller, fromConfigMap, "ConfigMap ns/windows-instances", []string{"a"}, nil, false, []string{"instance a"}},
		{"the garbage collector, empty", gc, fromMachines, "MachineSet ns/winworker", nil, nil, false, nil},
		{"the garbage collector, with hosts", gc, fromMachines, "MachineSet ns/winworker", []string{"a"}, nil, false, []string{"instance a"}},
		{"the namespace controller", namespaces, fromConfigMap, "ConfigMap ns/windows-instances", []string{"a"}, nil, true, nil},
		{"somebody with its account, the namespace stays", namespaces, fromConfigMap, "ConfigMap ns/windows-instances", []string{"a"}, nil, false, []string{"instance a"}},
		{"kube-controller-manager with one account, the namespace goes", manager, fromMachines, "MachineSet ns/winworker", []string{"a"}, nil, true, nil},
		{"kube-controller-manager with one account, garbage", manager, fromMachines, "MachineSet ns/winworker", []string{"a"}, nil, false, []string{"instance a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := validPool()
			pool.Spec.Source, pool.DeletionTimestamp = test.source, test.deleted
			if test.annotation != "" {
				pool.Annotations = map[string]string{v1alpha1.SourceAnnotation: test.annotation}
			}
			guard := deleteGuard{
				deleters: base.Deleters{Controllers: []string{controller}, NamespaceDeleted: func(context.Context, string) (time.Time, error) {
					if test.ending {
						return time.Unix(1, 0), nil
					}
					return time.Time{}, nil
				}},
				members: func(context.Context, string) ([]string, error) { return test.members, nil },
			}
			ctx := context.Background()
			if test.user != "" {
				ctx = genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: test.user})
			}
			err := guard.check(ctx, pool)
			if (err == nil) != (test.want == nil) || err != nil && !apierrors.IsConflict(err) {
				t.Fatalf("got %v", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the message %q does not mention %q", err, part)
				}
			}
		})
	}
	failing := deleteGuard{members: func(context.Context, string) ([]string, error) { return nil, errors.New("no storage") }}
	if err := failing.check(context.Background(), validPool()); !apierrors.IsInternalError(err) {
		t.Errorf("a pool of which nobody knows whether it has hosts: got %v", err)
	}
	failing.deleters.NamespaceDeleted = func(context.Context, string) (time.Time, error) { return time.Unix(1, 0), errors.New("no namespaces") }
	failing.members = func(context.Context, string) ([]string, error) { return nil, nil }
	if err := failing.check(genericapirequest.WithUser(context.Background(), &user.DefaultInfo{Name: namespaces}), validPool()); err == nil {
		t.Error("a pool of which nobody knows whether its namespace goes is deleted")
	}
}
