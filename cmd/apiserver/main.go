// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// windows-apiserver is the aggregated API server of windows.openshift.io.
package main

import (
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"

	"github.com/openshift/windows-instance-api/cmd/apiserver/app"
	"github.com/openshift/windows-instance-api/pkg/noproxy"
)

func main() {
	noproxy.Exempt()
	cmd := app.NewCommand()
	cmd.SetContext(genericapiserver.SetupSignalContext())
	os.Exit(cli.Run(cmd))
}
