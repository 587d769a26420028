// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// windows-controller turns the windows-instances ConfigMap and MachineSets into
// objects of windows.openshift.io, and manages the hosts behind them.
package main

import (
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"

	"github.com/openshift/windows-instance-api/cmd/controller/app"
	"github.com/openshift/windows-instance-api/pkg/noproxy"
)

func main() {
	noproxy.Exempt()
	cmd := app.NewCommand()
	cmd.SetContext(genericapiserver.SetupSignalContext())
	os.Exit(cli.Run(cmd))
}
