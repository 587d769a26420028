// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"flag"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// addVerbosity adds the flag of kubectl that has the libraries log. Without it the logger of the process stays, which main discards.
func addVerbosity(e *env, root *cobra.Command) {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	level := pflag.PFlagFromGoFlag(flags.Lookup("v"))
	level.Usage = "Level of the log on standard error, as of kubectl: 6 shows requests, 8 also what is sent and received, without credentials. 0: there is none."
	root.PersistentFlags().AddFlag(level)
	root.PersistentPreRun = func(*cobra.Command, []string) {
		if level.Value.String() == "0" {
			return
		}
		klog.ClearLogger() // klog itself writes then
		e.live = false     // lines that are drawn again where they are would be in the way
	}
}
