// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1_test

import (
	"slices"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestBastionEndpoint: one bastion has one spelling.
func TestBastionEndpoint(t *testing.T) {
	for _, tt := range []struct {
		bastion *v1alpha1.Bastion
		want    string
	}{
		{nil, ""},
		{&v1alpha1.Bastion{Address: "10.0.0.9", Port: 2222}, "10.0.0.9:2222"},
		{&v1alpha1.Bastion{Address: "10.0.0.9"}, "10.0.0.9:22"},
		{&v1alpha1.Bastion{Address: "::ffff:10.0.0.9", Port: 22}, "10.0.0.9:22"},
		{&v1alpha1.Bastion{Address: "2001:DB8:0::1", Port: 22}, "[2001:db8::1]:22"},
		{&v1alpha1.Bastion{Address: "Jump.Example.com.", Port: 22}, "jump.example.com:22"},
	} {
		if got := tt.bastion.Endpoint(); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.bastion, got, tt.want)
		}
	}
}

// TestBastionWith: an instance's own bastion replaces that of its pool.
func TestBastionWith(t *testing.T) {
	own, shared := &v1alpha1.Bastion{Address: "own"}, &v1alpha1.Bastion{Address: "shared"}
	plain, with := &v1alpha1.WindowsNodePool{}, &v1alpha1.WindowsNodePool{}
	with.Spec.Template.Bastion = shared
	for _, tt := range []struct {
		name string
		own  *v1alpha1.Bastion
		pool *v1alpha1.WindowsNodePool
		want *v1alpha1.Bastion
	}{
		{"none", nil, plain, nil},
		{"no pool", nil, nil, nil},
		{"of the pool", nil, with, shared},
		{"its own", own, with, own},
		{"its own without a pool", own, nil, own},
	} {
		instance := &v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Bastion: tt.own}}
		if got := instance.BastionWith(tt.pool); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// TestProvenAt: what a bastion says is no proof.
func TestProvenAt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status v1alpha1.WindowsInstanceStatus
		want   []string
	}{
		{"directly", v1alpha1.WindowsInstanceStatus{Addresses: []string{"10.0.0.1", "10.0.0.2"}, HostIP: "10.0.0.2"}, []string{"10.0.0.2"}},
		{"not recorded", v1alpha1.WindowsInstanceStatus{Addresses: []string{"10.0.0.1"}}, []string{"10.0.0.1"}},
		{"through a bastion", v1alpha1.WindowsInstanceStatus{HostIP: "10.0.0.2", Bastion: "10.0.0.9:22"}, nil},
	} {
		if got := tt.status.ProvenAt(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
