// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// getServed reads an instance in the version that is served, which is what those who
// reach hosts work with.
func getServed(ctx context.Context, instances rest.Getter, name string) (*v1alpha1.WindowsInstance, error) {
	obj, err := instances.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	internal, err := base.As[*windows.WindowsInstance](obj)
	if err != nil {
		return nil, err
	}
	return served(internal)
}

// served converts an instance to the version that is served.
func served(internal *windows.WindowsInstance) (*v1alpha1.WindowsInstance, error) {
	instance := &v1alpha1.WindowsInstance{}
	if err := v1alpha1.Convert_windows_WindowsInstance_To_v1alpha1_WindowsInstance(internal, instance, nil); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("converting the instance: %w", err))
	}
	return instance, nil
}
