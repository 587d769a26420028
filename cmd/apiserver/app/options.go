// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/openshift/windows-instance-api/pkg/apiserver"
	"github.com/openshift/windows-instance-api/pkg/desired/flags"
	hostoptions "github.com/openshift/windows-instance-api/pkg/host/options"
)

// options are the settings of windows-apiserver as flags give them.
type options struct {
	server  *apiserver.Options
	hosts   *hostoptions.Options
	desired flags.Flags
}

// newOptions returns the defaults.
func newOptions() *options {
	return &options{server: apiserver.NewOptions(), hosts: hostoptions.New()}
}

// addFlags adds the flags.
func (o *options) addFlags(fs *pflag.FlagSet) {
	o.server.AddFlags(fs)
	o.hosts.AddFlags(fs)
	o.desired.AddFlags(fs)
}

// validate returns everything that is wrong at once.
func (o *options) validate() error {
	return errors.Join(slices.Concat([]error{o.server.Validate()}, o.hosts.Validate(), o.desired.Validate())...)
}
