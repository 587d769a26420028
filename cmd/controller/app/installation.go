// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"

	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apiservice"
)

// waitForInstallation waits until no other installation has the hosts of the cluster: leaders are
// elected in each namespace on their own, and two of them would configure the same hosts. It
// returns false when ctx is done before.
func waitForInstallation(ctx context.Context, client dynamic.Interface, own string, health *healthServer) bool {
	health.setAwaited("APIService " + apiservice.Name + " to be read")
	err := apiservice.WaitUntilOwn(ctx, client, own, func(cause error) {
		klog.ErrorS(cause, "Waiting: another installation has the hosts of this cluster")
		health.setAwaited("the hosts of this cluster: " + cause.Error())
	})
	health.setAwaited("the API " + apiGroupVersion)
	return err == nil
}

// watchInstallation fails when another installation gets the hosts of the cluster. The process
// then ends, and waits when it is started again.
func watchInstallation(ctx context.Context, client dynamic.Interface, own string) error {
	if err := apiservice.WatchOwn(ctx, client, own); ctx.Err() == nil {
		return err
	}
	return nil // it ends with the process
}
